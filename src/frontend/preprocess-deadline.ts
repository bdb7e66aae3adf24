/**
 * Waits for template and tokenizer, but not longer than allowed and not for a client that has left.
 */
import type { Clock } from '../base/index.ts'
import { clientGone, deadlineError } from './stage-error.ts'

export async function withinPreprocess<T>(
  work: Promise<T>,
  options: { readonly clock: Clock; readonly limitMs: number; readonly signal: AbortSignal },
): Promise<T> {
  const { clock, limitMs, signal } = options
  let release = (): void => {}
  const ended = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(clientGone('preprocess'))
    const timer = clock.after(limitMs, () => reject(deadlineError('preprocess', limitMs)))
    release = () => {
      timer.cancel()
      signal.removeEventListener('abort', onAbort)
    }
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
  })
  try {
    return await Promise.race([work, ended])
  } finally {
    release()
  }
}
