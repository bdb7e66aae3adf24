/** Sums over a worker's ranks, for displays of a fleet: the console's page and `baton top`. */
import { addressText } from '../../base/index.ts'
import type { RankView, WorkerView } from './fleet-view.ts'

interface WorkerSums {
  /** Requests as the router has booked them or as the worker reports them, whichever is more. */
  readonly running: number
  /** Requests in the engine's queue. */
  readonly queued: number
  /** Number of prompts that were routed to the worker. */
  readonly prompts: number
  /** Used share of its KV memory, 0 to 1; null: the worker does not report it. */
  readonly kvShare: number | null
  /** `full`: the worker serves, but a rank accepts no more requests. */
  readonly state: WorkerView['state'] | 'full'
}

/** The address for display: that of the foreign server, or the worker's own. */
export function workerAddress({
  upstream,
  host,
  port,
}: Pick<WorkerView, 'upstream' | 'host' | 'port'>): string {
  return upstream?.replace(/^http:\/\//, '') ?? addressText(host, port)
}

export function workerSums({ ranks, state }: Pick<WorkerView, 'ranks' | 'state'>): WorkerSums {
  const total = (of: (rank: RankView) => number): number =>
    ranks.reduce((sum, rank) => sum + of(rank), 0)
  const blocks = total(({ totalBlocks }) => totalBlocks ?? 0)
  const used = total(({ reportedBlocks, activeDecodeBlocks }) =>
    Math.max(reportedBlocks ?? 0, activeDecodeBlocks),
  )
  return {
    running: total((rank) => Math.max(rank.activeRequests, rank.reportedRequests)),
    queued: total((rank) => rank.reportedQueued),
    prompts: total((rank) => rank.promptsPlaced),
    kvShare: blocks === 0 ? null : Math.min(1, used / blocks),
    state: state === 'serving' && ranks.some(({ full }) => full) ? 'full' : state,
  }
}
