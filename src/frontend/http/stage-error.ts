/**
 * The stages of a request's life. Every deadline and every error event names one.
 */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'

export type Stage = 'preprocess' | 'route' | 'prefill' | 'decode'

/** The same error with the stage, unless a lower layer has set one. */
export function inStage(error: BatonError, stage: Stage): BatonError {
  if (error.data['stage'] !== undefined) return error
  return new BatonError(error.code, error.message, {
    data: { ...error.data, stage },
    cause: error,
  })
}

export function deadlineError(stage: Stage, limitMs: number): BatonError {
  return new BatonError(
    'request.deadline_exceeded',
    `the ${stage} stage made no progress within ${limitMs} ms`,
    { data: { stage, limitMs } },
  )
}

/** The fault is the client's: the engine would have gone on. */
export function clientStalled(limitMs: number): BatonError {
  const text = `the client did not read its reply within ${limitMs} ms: it was cut`
  return new BatonError('request.cancelled', text, { data: { stage: 'decode' } })
}

export function clientGone(stage: Stage, { reason }: CancelSignal): BatonError {
  const message = typeof reason === 'string' ? reason : 'the client disconnected'
  return new BatonError('request.cancelled', message, { data: { stage } })
}
