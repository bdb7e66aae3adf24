/** Whether a router has the connections that a request needs: to one prefill and to one decode worker. */
import type { DisaggConfig } from '../protocol/disagg-config.ts'
import type { BoostrMesh } from './boostr-mesh.ts'

export interface BoostrHealth {
  readonly canServe: boolean
  /** Why workers cannot be reached, also while others serve. */
  readonly warnings: readonly string[]
}

type Links = Pick<BoostrMesh, 'reachable' | 'whyUnreachable'>
type Ranks = Pick<DisaggConfig, 'prefillWorkers' | 'decodeWorkers'>

export function boostrHealth({ prefillWorkers, decodeWorkers }: Ranks, links: Links): BoostrHealth {
  const { reachable } = links
  const roles = [
    ['prefill', prefillWorkers],
    ['decode', decodeWorkers],
  ] as const
  const absent = roles.filter(([, ranks]) => !ranks.some((rank) => reachable.includes(rank)))
  const away = roles.flatMap(([role, ranks]) =>
    ranks
      .filter((rank) => !reachable.includes(rank))
      .map(
        (rank) => `${role} worker ${rank}: ${links.whyUnreachable(rank) ?? 'is being connected'}`,
      ),
  )
  return {
    canServe: absent.length === 0,
    warnings: [...absent.map(([role]) => `no ${role} worker is connected`), ...away],
  }
}
