/** Sums over a worker's ranks, for whoever shows a fleet: the console's page, `baton top`. */
import type { RankView, WorkerView } from './fleet-view.ts'

export interface WorkerSums {
  /** Requests, as the router has booked them or as the worker reports them: whichever is more. */
  readonly running: number
  /** Requests in the engine's queue. */
  readonly queued: number
  /** Prompts that were placed there. */
  readonly prompts: number
  /** Share of its KV memory that is in use, 0 to 1; null: the worker does not tell. */
  readonly kvShare: number | null
  /** `full` where it serves and a rank takes no more. */
  readonly state: WorkerView['state'] | 'full'
}

/** Where a person finds it: the server that it stands for, or its own address. */
export function workerAddress({
  upstream,
  host,
  port,
}: Pick<WorkerView, 'upstream' | 'host' | 'port'>): string {
  return upstream?.replace(/^http:\/\//, '') ?? `${host}:${port}`
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
