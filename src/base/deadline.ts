/**
 * Waits for a promise with a deadline. The work is not stopped (only its owner can do that); a late result is
 * ignored.
 */
import { errorOf } from './baton-error.ts'
import type { CancelSignal } from './cancel-signal.ts'
import type { Clock } from './clock.ts'

type DeadlineOutcome<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'cancelled' }

/**
 * `timeoutMs` may be Infinity. A rejection of `work` before the deadline is passed on. `cancelled` ends the wait
 * early.
 */
export function withDeadline<T>(
  clock: Clock,
  timeoutMs: number,
  work: Promise<T>,
  cancelled?: CancelSignal,
): Promise<DeadlineOutcome<T>> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      timer?.cancel()
      cancelled?.removeEventListener('abort', onCancelled)
    }
    const onCancelled = (): void => {
      end()
      resolve({ kind: 'cancelled' })
    }
    const onTimeout = (): void => {
      end()
      resolve({ kind: 'timed_out' })
    }
    const timer = timeoutMs === Infinity ? null : clock.after(Math.max(0, timeoutMs), onTimeout)
    cancelled?.addEventListener('abort', onCancelled)
    work.then(
      (value) => {
        end()
        resolve({ kind: 'done', value })
      },
      (error: unknown) => {
        end()
        reject(errorOf(error))
      },
    )
    if (cancelled?.aborted === true) onCancelled()
  })
}
