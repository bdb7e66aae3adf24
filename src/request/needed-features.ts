/**
 * Which engine features a request needs, each with the field that needs it. Values without effect (a penalty of zero)
 * need none.
 */
import type { GenerateRequest } from './generate-request.ts'
import type { EngineFeature, WorkerCard } from './worker-card.ts'

export function* neededFeatures({
  sampling,
  output,
}: Pick<GenerateRequest, 'sampling' | 'output'>): Generator<[string, EngineFeature]> {
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
  if (output.logprobs !== undefined) yield ['logprobs', 'logprobs']
}

/**
 * The worker generates and does not state the features of its engine (Baton 0.1), so constraints may be ignored there. A
 * server that gets its requests unchanged answers for its fields itself.
 */
export function isSilent({ engine, mode }: WorkerCard): boolean {
  const isForwarded = engine.runtimeData?.['forwarded'] === true
  return engine.features === undefined && mode !== 'prefill' && !isForwarded
}
