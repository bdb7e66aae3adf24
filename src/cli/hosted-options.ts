/**
 * What a hosted worker is told, in a process of its own and in the frontend's process alike.
 */
import { resolve } from 'node:path'
import { BatonError } from '../base/index.ts'
import { openKvTcp, sharedMemoryFault } from '../host/index.ts'
import type { HostedWorkerOptions } from '../host/index.ts'
import type { ServeConfig } from './serve-config.ts'
import { BATON_VERSION } from './version.ts'
import { wireSecurity } from './wire-security.ts'

export function hostedOptions(
  config: ServeConfig,
): Pick<
  HostedWorkerOptions,
  | 'engineName'
  | 'version'
  | 'openKv'
  | 'limits'
  | 'runtimeData'
  | 'shutdown'
  | 'taints'
  | 'topology'
> {
  const { reasoningParser, toolCallParser, taints, topology } = config
  const security = wireSecurity(config)
  return {
    engineName: config.engine,
    version: BATON_VERSION,
    openKv: (mode) => openKvTcp(mode, { host: config.workerHost, ...security, ...shmOf(config) }),
    limits: { kvFailure: config.kvFailure },
    shutdown: {
      totalMs: (config.graceSeconds + config.drainSeconds) * 1000,
      routerGraceMs: config.graceSeconds * 1000,
    },
    ...(taints === null ? {} : { taints: taints.split(',') }),
    ...(topology === null ? {} : { topology: domainsOf(topology) }),
    runtimeData: {
      ...(reasoningParser === null ? {} : { reasoning_parser: reasoningParser }),
      ...(toolCallParser === null ? {} : { tool_call_parser: toolCallParser }),
    },
  }
}

function domainsOf(pairs: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.split(',').map((pair) => pair.split('=') as [domain: string, value: string]),
  )
}

/** Both ends must see the same folder; they check that, and fall back to the socket when they do not. */
export function shmOf(config: ServeConfig): { readonly shmDir?: string } {
  if (config.kvTransport === 'tcp') return {}
  const folder = resolve(config.kvShmDir)
  const fault = sharedMemoryFault(folder)
  if (fault === null) return { shmDir: folder }
  if (config.kvTransport === 'auto') return {}
  throw new BatonError('config.invalid', `--kv-transport shm: ${fault}; use tcp`)
}
