/**
 * What a client reads when the model that it asks for cannot be found.
 */
import { BatonError } from '../../base/index.ts'

export function unknownModel(name: string): BatonError {
  return new BatonError('request.not_found', `The model \`${name}\` does not exist.`, {
    data: { param: 'model', clientCode: 'model_not_found' },
  })
}

/** A frontend may be asked before the first worker has registered: then no name is wrong yet. */
export function noModelYet(): BatonError {
  return new BatonError(
    'backend.worker_unavailable',
    'No model is served: no worker is registered. Please retry shortly.',
  )
}
