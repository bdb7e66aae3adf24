/**
 * How much a pool has to do, in three numbers that a controller (ours, HPA, KEDA) can act on.
 */
import type { PoolStatus, RankStatus } from '../load/router-status.ts'

export interface RoleLoad {
  readonly workers: number
  /** Requests that wait for a worker of the pool. */
  readonly queuedRequests: number
  /** Of a request of the usual length that came now; null: nothing is known yet. */
  readonly predictedTtftMs: number | null
  /** Share of what the pool can hold that is in use, 1: nothing more goes in. The larger of KV blocks and full workers. */
  readonly utilisation: number
}

export function roleLoadOf(pool: PoolStatus): RoleLoad {
  const { workers, queuedRequests, predictedTtftMs, ranks } = pool
  const utilisation =
    queuedRequests > 0 ? 1 : Math.max(shareOfFull(ranks), Math.min(1, blocksShare(ranks)))
  return { workers, queuedRequests, predictedTtftMs, utilisation }
}

function shareOfFull(ranks: readonly RankStatus[]): number {
  if (ranks.length === 0) return 0
  return ranks.filter(({ full, overloaded }) => full || overloaded).length / ranks.length
}

/** Booked or reported, whichever is more. */
function blocksShare(ranks: readonly RankStatus[]): number {
  let [used, total] = [0, 0]
  for (const { activeDecodeBlocks, reportedBlocks, totalBlocks } of ranks) {
    if (totalBlocks === null) continue
    used += Math.max(activeDecodeBlocks, reportedBlocks ?? 0)
    total += totalBlocks
  }
  return total === 0 ? 0 : used / total
}
