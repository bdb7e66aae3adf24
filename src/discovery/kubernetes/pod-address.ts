/**
 * The address of a pod, from its description in the Kubernetes API. A worker's port is the container port named
 * `baton`.
 */
import { isRecord } from '../../base/index.ts'
import type { HostPort } from '../host-port.ts'

const PORT_NAME = 'baton'

/** Null: the pod does not run, is being deleted, or has no such port. */
export function podAddress(pod: unknown): HostPort | null {
  if (!isRecord(pod) || !isRecord(pod['status']) || !isRecord(pod['spec'])) return null
  const { podIP, phase } = pod['status']
  const isLeaving = isRecord(pod['metadata']) && 'deletionTimestamp' in pod['metadata']
  const port = portOf(pod['spec']['containers'])
  if (typeof podIP !== 'string' || phase !== 'Running' || isLeaving || port === null) return null
  return { host: podIP, port }
}

function portOf(containers: unknown): number | null {
  if (!Array.isArray(containers)) return null
  for (const container of containers as unknown[]) {
    const ports = isRecord(container) ? container['ports'] : null
    if (!Array.isArray(ports)) continue
    for (const port of ports as unknown[]) {
      if (!isRecord(port) || port['name'] !== PORT_NAME) continue
      if (typeof port['containerPort'] === 'number') return port['containerPort']
    }
  }
  return null
}
