/**
 * The three roles of the dialect `boostr` over TCP: each a node of src/boostr on its own mesh, with the clock
 * of the machine and, for decode, the loop that steps it.
 */
import { randomBytes } from 'node:crypto'

import type { BoostrLink } from '../protocol/boostr-link.ts'
import { BoostrDecodeWorker } from '../protocol/boostr-decode-worker.ts'
import { BoostrPrefillWorker } from '../protocol/boostr-prefill-worker.ts'
import { BoostrRouter } from '../protocol/boostr-router.ts'
import type { BoostrDecodeOptions } from '../protocol/boostr-decode-worker.ts'
import type { BoostrPrefillOptions } from '../protocol/boostr-prefill-worker.ts'
import type { BoostrRouterOptions } from '../protocol/boostr-router.ts'
import { osClock } from '../../os/index.ts'
import { BoostrMesh } from './boostr-mesh.ts'
import type { BoostrMeshNode, BoostrMeshOptions } from './boostr-mesh.ts'

export interface HostedBoostr<N> {
  readonly node: N
  readonly mesh: BoostrMesh
}

type MeshOptions = Omit<BoostrMeshOptions, 'createNode'>
type Without<T> = Omit<T, 'link' | 'clock' | 'onWork'>

/** Its mesh must connect to the workers; until then a worker counts as lost. */
export async function hostBoostrRouter(
  mesh: Omit<MeshOptions, 'rank' | 'ranks'>,
  options: Omit<Without<BoostrRouterOptions>, 'firstRequestId'>,
): Promise<HostedBoostr<BoostrRouter>> {
  const { routerRank: rank, prefillWorkers, decodeWorkers } = options.config
  const ranks = [...prefillWorkers, ...decodeWorkers]
  const hosted = await host({ ...mesh, rank, ranks }, (link) => {
    const router = { ...options, link, clock: osClock }
    // Original peers do not outlive their router, and get the ids that the original counts.
    if (options.peers === 'boostr') return new BoostrRouter(router)
    return new BoostrRouter({ ...router, firstRequestId: randomBytes(8).readBigUInt64LE() })
  })
  for (const worker of ranks) hosted.node.peerGone(worker)
  return hosted
}

/** Its mesh must connect to the decode workers. */
export function hostBoostrPrefill(
  mesh: MeshOptions,
  options: Without<BoostrPrefillOptions>,
): Promise<HostedBoostr<BoostrPrefillWorker>> {
  return host(mesh, (link) => new BoostrPrefillWorker({ ...options, link, clock: osClock }))
}

/** Steps while there is work, and lets the sockets run between two steps. */
export function hostBoostrDecode(
  mesh: MeshOptions,
  options: Without<BoostrDecodeOptions>,
): Promise<HostedBoostr<BoostrDecodeWorker>> {
  return host(mesh, (link) => {
    let isDue = false
    const schedule = (): void => {
      if (isDue) return
      isDue = true
      setImmediate(() => {
        isDue = false
        worker.step()
        if (worker.hasWork) schedule()
      })
    }
    const worker = new BoostrDecodeWorker({ ...options, link, clock: osClock, onWork: schedule })
    return worker
  })
}

async function host<N extends BoostrMeshNode>(
  options: MeshOptions,
  create: (link: BoostrLink) => N,
): Promise<HostedBoostr<N>> {
  let node: N | undefined
  const mesh = await BoostrMesh.listen({
    ...options,
    createNode: (link) => {
      node = create(link)
      return node
    },
  })
  return { node: node as N, mesh }
}
