/**
 * Decides whether a failed line of a batch is retried, and after how long. A batch has hours, so it waits for
 * capacity as long as possible, but it does not retry without end a line that crashes its workers.
 */
import type { BatonError } from '../../base/index.ts'

const FIRST_MS = 1_000
const LONGEST_MS = 30_000
const ATTEMPTS_MAX = 5

/** Stages before any computation: the line did not cause the failure. */
const BEFORE: ReadonlySet<unknown> = new Set([undefined, 'queue', 'route', 'preprocess'])

/** Milliseconds until the next attempt; null: no retry. `isYoung`: workers may not have registered yet. */
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
