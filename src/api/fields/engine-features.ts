/** Which engine features a request needs. A field that the engine does not support is refused by name. */
import type { EngineFeature } from '../../request/index.ts'
import { unsupported } from './generation-fields.ts'
import type { GenerationOptions } from './generation-fields.ts'

/** `features` undefined: the engine does not report its features, so nothing is refused. */
export function refuseMissingFeatures(
  options: GenerationOptions,
  features: readonly EngineFeature[] | undefined,
): void {
  if (features === undefined) return
  for (const [param, feature] of neededFeatures(options)) {
    if (!features.includes(feature)) {
      throw unsupported(param, `needs "${feature}", which the engine of this model does not have`)
    }
  }
}

/** Values without effect (a penalty of zero) need no feature. */
function* neededFeatures(options: GenerationOptions): Generator<[string, EngineFeature]> {
  const { sampling, output } = options
  if ((sampling.presencePenalty ?? 0) !== 0) yield ['presence_penalty', 'penalties']
  if ((sampling.frequencyPenalty ?? 0) !== 0) yield ['frequency_penalty', 'penalties']
  if ((sampling.repetitionPenalty ?? 1) !== 1) yield ['repetition_penalty', 'penalties']
  if (Object.keys(sampling.logitBias ?? {}).length > 0) yield ['logit_bias', 'logit_bias']
  if ((sampling.minP ?? 0) !== 0) yield ['min_p', 'min_p']
  if (sampling.seed !== undefined) yield ['seed', 'seed']
  if (sampling.guided !== undefined) {
    const { field = 'response_format' } = sampling.guided
    yield [field === 'tools' ? 'tool_choice' : field, 'guided']
  }
  if (output.promptLogprobs !== undefined) yield ['prompt_logprobs', 'prompt_logprobs']
  // The best of several choices is found by their log-probabilities.
  const asked = options.hidesLogprobs === true ? 'best_of' : 'logprobs'
  if (output.logprobs !== undefined) yield [asked, 'logprobs']
}
