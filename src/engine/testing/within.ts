/** Waits for a promise of the engine with a deadline, and passes on whatever it throws. */
import type { Clock } from '../../base/index.ts'

const EXPIRED = Symbol('expired')

/** The value, or undefined if the deadline passed first. Without a clock there is no deadline. */
export async function within<T>(
  clock: Clock | undefined,
  deadlineMs: number,
  promise: Promise<T>,
): Promise<T | undefined> {
  if (clock === undefined) return promise
  const expired = new Promise<typeof EXPIRED>((resolve) => {
    const timer = clock.after(deadlineMs, () => resolve(EXPIRED))
    const cancel = (): void => timer.cancel()
    promise.then(cancel, cancel)
  })
  const result = await Promise.race([promise, expired])
  return result === EXPIRED ? undefined : result
}
