/**
 * The errors for a model that cannot be found.
 */
import { BatonError } from '../../base/index.ts'

export function unknownModel(name: string): BatonError {
  return new BatonError('request.not_found', `The model \`${name}\` does not exist.`, {
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
