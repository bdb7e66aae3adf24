/** A field that the engine of a model does not support is refused by name. */
import { neededFeatures } from '../../request/index.ts'
import type { EngineFeature } from '../../request/index.ts'
import { unsupported } from './generation-fields.ts'
import type { GenerationOptions } from './generation-fields.ts'

/**
 * `features` undefined: no worker states any (Baton 0.1; later ones state an empty list), so nothing is known and
 * nothing is refused.
 */
export function refuseMissingFeatures(
  options: GenerationOptions,
  features: readonly EngineFeature[] | undefined,
): void {
  if (features === undefined) return
  for (const [field, feature] of neededFeatures(options)) {
    if (!features.includes(feature)) {
      // The best of several choices is found by their log-probabilities.
      const param = field === 'logprobs' && options.hidesLogprobs === true ? 'best_of' : field
      throw unsupported(param, `needs "${feature}", which the engine of this model does not have`)
    }
  }
}

/** True when an engine without features would ignore a part of the request. */
export function needsFeatures(options: GenerationOptions): boolean {
  return neededFeatures(options).next().done !== true
}
