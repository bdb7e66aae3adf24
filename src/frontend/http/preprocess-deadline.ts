/**
 * Waits for template and tokenizer when necessary, until a deadline passes or the client disconnects.
 */
import { withDeadline } from '../../base/index.ts'
import type { CancelSignal, Clock } from '../../base/index.ts'
import { clientGone, deadlineError } from './stage-error.ts'

export async function withinPreprocess<T>(
  work: T | Promise<T>,
  options: { readonly clock: Clock; readonly limitMs: number; readonly signal: CancelSignal },
): Promise<T> {
  if (!(work instanceof Promise)) return work
  const { clock, limitMs, signal } = options
  const outcome = await withDeadline(clock, limitMs, work, signal)
  switch (outcome.kind) {
    case 'done':
      return outcome.value
    case 'timed_out':
      throw deadlineError('preprocess', limitMs)
    case 'cancelled':
      throw clientGone('preprocess', signal)
  }
}
