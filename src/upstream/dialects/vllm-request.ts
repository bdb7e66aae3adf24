/**
 * Writes requests with token ids for vLLM's two routes.
 */
import { hasStopTexts } from '../../request/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { WriteContext } from './dialect.ts'
import { given } from './plain-values.ts'
import type { JsonObject } from './plain-values.ts'

/** Fields with the same name on both routes. */
function samplingOf({ sampling, stop, resumedTokens = 0 }: GenerateRequest): JsonObject {
  const { topK, minP, seed, logitBias } = sampling
  const minTokens = Math.max(0, (stop.minTokens ?? 0) - resumedTokens)
  return given({
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: topK === undefined || topK <= 0 ? undefined : topK,
    min_p: minP,
    seed,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    repetition_penalty: sampling.repetitionPenalty,
    logit_bias: logitBias,
    min_tokens: minTokens > 0 ? minTokens : undefined,
    stop_token_ids: stop.stopTokenIds,
    ignore_eos: stop.ignoreEos === true ? true : undefined,
  })
}

function tokensMax({ stop, tokenIds }: GenerateRequest, { facts }: WriteContext): number {
  // Without a value the server would use 16.
  return stop.maxTokens ?? Math.max(1, (facts.contextLength ?? 4096) - tokenIds.length)
}

export function completionBody(request: GenerateRequest, context: WriteContext): JsonObject {
  const { output, routing, sampling } = request
  const { logprobs } = output
  return {
    model: routing.loraName ?? context.facts.model,
    prompt: [...request.tokenIds],
    max_tokens: tokensMax(request, context),
    ...samplingOf(request),
    return_token_ids: true,
    ...(logprobs === undefined ? {} : { logprobs, return_tokens_as_token_ids: true }),
    ...(routing.cacheSalt ? { cache_salt: routing.cacheSalt } : {}),
    ...guidedOf(sampling.guided),
  }
}

function guidedOf(guided: GenerateRequest['sampling']['guided']): JsonObject {
  switch (guided?.kind) {
    case undefined:
      return {}
    case 'json':
      return { structured_outputs: { json_object: true } }
    case 'json-schema':
      return { structured_outputs: { json: guided.schema } }
    case 'regex':
      return { structured_outputs: { regex: guided.pattern } }
    case 'choice':
      return { structured_outputs: { choice: guided.choices } }
    case 'grammar':
      return { structured_outputs: { grammar: guided.gbnf } }
  }
}

export function generateBody(
  request: GenerateRequest,
  context: WriteContext,
): { readonly path: string; readonly body: JsonObject } {
  const { output, routing } = request
  const { logprobs } = output
  return {
    path: '/inference/v1/generate',
    body: {
      model: routing.loraName ?? context.facts.model,
      token_ids: [...request.tokenIds],
      sampling_params: {
        max_tokens: tokensMax(request, context),
        ...samplingOf(request),
        ...(logprobs === undefined ? {} : { logprobs }),
      },
      stream: true,
      stream_options: {
        include_usage: true,
        ...(hasStopTexts(request.stop) ? { continuous_usage_stats: true } : {}),
      },
      ...(routing.cacheSalt ? { cache_salt: routing.cacheSalt } : {}),
    },
  }
}
