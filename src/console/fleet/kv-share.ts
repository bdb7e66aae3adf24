/** How full a worker's KV memory is. */
import type { WorkerView } from '../../frontend/index.ts'

/** Null: the worker does not tell. */
export function kvShare({ ranks }: WorkerView): number | null {
  const total = ranks.reduce((sum, { totalBlocks }) => sum + (totalBlocks ?? 0), 0)
  if (total === 0) return null
  const used = ranks.reduce(
    (sum, { reportedBlocks, activeDecodeBlocks }) =>
      sum + Math.max(reportedBlocks ?? 0, activeDecodeBlocks),
    0,
  )
  return Math.min(1, used / total)
}
