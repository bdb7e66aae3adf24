/** The load of a pool in three numbers that an autoscaler (Baton's role controller, HPA, KEDA) can act on. */
import type { PoolStatus, RankStatus } from '../ranks/router-status.ts'

export interface RoleLoad {
  readonly workers: number
  /** Requests queued for a worker of the pool. */
  readonly queuedRequests: number
  /** Predicted first-token time of a request of usual length arriving now; null: nothing is known yet. */
  readonly predictedTtftMs: number | null
  /** Share of the pool's capacity in use, 1: full. The larger of KV blocks and full workers. */
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

/** The larger of booked and reported blocks. */
function blocksShare(ranks: readonly RankStatus[]): number {
  let [used, total] = [0, 0]
  for (const { activeDecodeBlocks, reportedBlocks, totalBlocks } of ranks) {
    if (totalBlocks === null) continue
    used += Math.max(activeDecodeBlocks, reportedBlocks ?? 0)
    total += totalBlocks
  }
  return total === 0 ? 0 : used / total
}
