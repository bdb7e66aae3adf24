/**
 * A deadline around something awaited. The work itself is not stopped (only its owner can do that); its late
 * outcome is dropped.
 */
import type { Clock } from '../base/index.ts'

export type DeadlineOutcome<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'timed_out' }

/** `timeoutMs` of Infinity waits for ever; a rejection of `work` before the deadline is passed on. */
export function withDeadline<T>(
  clock: Clock,
  timeoutMs: number,
  work: Promise<T>,
): Promise<DeadlineOutcome<T>> {
  if (timeoutMs === Infinity) return work.then((value) => ({ kind: 'done', value }))
  return new Promise((resolve, reject) => {
    const timer = clock.after(Math.max(0, timeoutMs), () => resolve({ kind: 'timed_out' }))
    work.then(
      (value) => {
        timer.cancel()
        resolve({ kind: 'done', value })
      },
      (error: unknown) => {
        timer.cancel()
        reject(error instanceof Error ? error : new Error(String(error)))
      },
    )
  })
}
