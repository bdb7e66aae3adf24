/**
 * Whether a line of a batch that failed is asked again, and after how long. A batch has hours: it waits for capacity as long as
 * it may, but not for ever on a line that breaks whoever computes it.
 */
import type { BatonError } from '../../base/index.ts'

const FIRST_MS = 1_000
const LONGEST_MS = 30_000
const ATTEMPTS_MAX = 5

/** Before anything was computed: the line had no part in it. */
const BEFORE: ReadonlySet<unknown> = new Set([undefined, 'queue', 'route', 'preprocess'])

/** Null: the answer stays. `isYoung`: workers may not have registered yet. */
export function attemptAfterMs(
  error: BatonError,
  attempt: number,
  isYoung: boolean,
): number | null {
  const { code, data, row } = error
  const isAwaited = code === 'request.not_found' && isYoung
  if (!row.retryable && !isAwaited) return null
  const isCapacity = code.startsWith('capacity.') || code === 'request.rate_limited'
  const isBefore = row.class === 'Unavailable' && BEFORE.has(data['stage'])
  if (!isCapacity && !isBefore && !isAwaited && attempt >= ATTEMPTS_MAX) return null
  const grown = Math.min(FIRST_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_MS)
  const { retryAfterMs } = data
  return typeof retryAfterMs === 'number' ? Math.min(Math.max(retryAfterMs, 10), LONGEST_MS) : grown
}
