/**
 * The errors for a model that cannot be found.
 */
import { BatonError } from '../../base/index.ts'

/** A name may be as long as the body may be; the whole is of no use to the client. */
const SHOWN_MAX = 256

export function unknownModel(name: string): BatonError {
  const shown = name.length <= SHOWN_MAX ? name : `${name.slice(0, SHOWN_MAX)}…`
  return new BatonError('request.not_found', `The model \`${shown}\` does not exist.`, {
    data: { param: 'model', clientCode: 'model_not_found' },
  })
}

/** Before the first worker has registered every name may still become valid, so the error is retryable. */
export function noModelYet(): BatonError {
  return new BatonError(
    'backend.worker_unavailable',
    'No model is served: no worker is registered. Please retry shortly.',
  )
}

/** An administrator may change the weights at any time, and workers of other versions may join. */
export function silencedModel(name: string): BatonError {
  return new BatonError(
    'backend.worker_unavailable',
    `Model \`${name}\` takes no requests: ${weightReason(name)}. Please retry shortly.`,
    { data: { model: name } },
  )
}

export function weightReason(name: string): string {
  return `every version of ${name} that is there has weight 0, until an administrator gives one another (POST /admin/weights)`
}
