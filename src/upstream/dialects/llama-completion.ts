/**
 * Requests to llama-server's own route `/completion`, and the reader of its answers.
 */
import { isRecord } from '../../base/index.ts'
import { hasStopTexts } from '../../request/index.ts'
import type { GenerateRequest, TokenLogprob, TokenLogprobs } from '../../request/index.ts'
import { guidedGrammar } from '../../text/index.ts'
import type { LostText, Piece, PieceReader, WrittenRequest } from './dialect.ts'
import type { LostTokens } from './lost-tokens.ts'
import { countIn, idsIn, listIn, numberIn, textIn } from './plain-values.ts'
import type { JsonObject } from './plain-values.ts'
import { outputIdsIn } from './output-ids.ts'
import { errorOfEvent, withoutIds } from './upstream-error.ts'

const PENALTY_TOKENS = 4096

/** A streamed request to `/completion`; the connection is closed after it. */
export function writtenCompletion(body: JsonObject, lost: LostTokens | null): WrittenRequest {
  return {
    http: {
      method: 'POST',
      path: '/completion',
      headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
      body: JSON.stringify(body),
      reuse: false,
    },
    // When no token is requested the server still computes one and reports its text.
    reader: new CompletionReader(lost, body['n_predict'] !== 0),
  }
}

export function completionBody(
  request: GenerateRequest,
  contextLength: number | undefined,
): JsonObject {
  const { sampling, stop, output } = request
  const { temperature = 1, topP = 1, topK, minP = 0, seed, logitBias, guided } = sampling
  return {
    prompt: [...request.tokenIds],
    n_predict: stop.maxTokens ?? -1,
    stream: true,
    return_tokens: true,
    cache_prompt: true,
    temperature,
    top_p: topP,
    top_k: topK === undefined || topK < 0 ? 0 : topK,
    min_p: minP,
    typical_p: 1,
    repeat_penalty: sampling.repetitionPenalty ?? 1,
    // Penalties count the whole context, not only the last 64 tokens.
    repeat_last_n: contextLength ?? PENALTY_TOKENS,
    presence_penalty: sampling.presencePenalty ?? 0,
    frequency_penalty: sampling.frequencyPenalty ?? 0,
    dry_multiplier: 0,
    xtc_probability: 0,
    mirostat: 0,
    ...(seed === undefined ? {} : { seed: seed >>> 0 }),
    ...(logitBias === undefined ? {} : { logit_bias: biasesOf(logitBias) }),
    ...(stop.ignoreEos === true ? { ignore_eos: true } : {}),
    ...(output.logprobs === undefined ? {} : { n_probs: Math.max(1, output.logprobs) }),
    ...(guided === undefined ? {} : { grammar: guidedGrammar(guided) }),
    // If the reader may stop early, the number of cached tokens is reported with the first token.
    ...(hasStopTexts(stop) ? { timings_per_token: true } : {}),
  }
}

/** `false`: the token is excluded. */
function biasesOf(biases: Readonly<Record<number, number>>): readonly unknown[] {
  return Object.entries(biases).map(([id, bias]) => [Number(id), bias === -Infinity ? false : bias])
}

class CompletionReader implements PieceReader {
  readonly #lost: LostTokens | null
  readonly #wantsIds: boolean
  /** Tokens that were reported or recovered. */
  #told = 0

  /** `lost` is null when no tokenizer is available here; then unreported ids stay unknown. */
  constructor(lost: LostTokens | null, wantsIds: boolean) {
    this.#lost = lost
    this.#wantsIds = wantsIds
  }

  read(json: unknown): Piece | null {
    const error = errorOfEvent(json)
    if (error !== null) return { tokenIds: [], error }
    if (!isRecord(json)) return null
    // A progress report, although it contains token 0.
    if (json['prompt_progress'] !== undefined) return null
    const cachedTokens = countIn(json, 'timings', 'cache_n')
    const promptTokens = numberIn(json, 'tokens_evaluated')
    const own = outputIdsIn(json, 'tokens')
    const isEnd = json['stop'] === true && this.#told > 0
    if (this.#wantsIds && !isEnd && hasTextOnly(json)) return { tokenIds: [], error: withoutIds() }
    const missing = this.#missing(json)
    const [last] = own
    const found =
      missing === null ? [] : (this.#lost?.before(missing.text, last ?? 0, missing.count) ?? null)
    const lost = found ?? []
    this.#told += missing?.count ?? 0
    const tokenIds = [...lost, ...own]
    this.#told += own.length
    const told = logprobsIn(json)
    // The probability of an unreported token is unknown.
    const unknown = told.length === 0 ? [] : lost.map(unknownLogprob)
    const logprobs = [...unknown, ...told]
    return {
      tokenIds,
      ...(found === null && missing !== null ? { lost: missing } : {}),
      ...(logprobs.length === 0 ? {} : { logprobs }),
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
      ...(promptTokens === undefined ? {} : { promptTokens }),
      ...(json['stop'] === true ? { finish: finishOf(textIn(json, 'stop_type')) } : {}),
    }
  }

  /** Null: everything was reported. */
  #missing(json: unknown): LostText | null {
    const predicted = numberIn(json, 'tokens_predicted')
    const text = textIn(json, 'content') ?? ''
    const told = idsIn(json, 'tokens').length
    if (this.#lost === null || predicted === undefined || told !== 1 || text === '') return null
    const count = predicted - this.#told - told
    return count > 0 ? { text, count } : null
  }
}

function hasTextOnly(json: unknown): boolean {
  return (textIn(json, 'content') ?? '') !== '' && idsIn(json, 'tokens').length === 0
}

function unknownLogprob(tokenId: number): TokenLogprobs {
  return { tokenId, logprob: -Infinity, top: [] }
}

function finishOf(stopType: string | undefined): 'stop' | 'length' {
  return stopType === 'eos' || stopType === 'word' ? 'stop' : 'length'
}

function logprobsIn(json: unknown): readonly TokenLogprobs[] {
  return listIn(json, 'completion_probabilities').flatMap((entry) => {
    const chosen = logprobOf(entry)
    if (chosen === null) return []
    const top = listIn(entry, 'top_logprobs')
      .map(logprobOf)
      .filter((rival) => rival !== null)
    return [{ ...chosen, top }]
  })
}

function logprobOf(entry: unknown): TokenLogprob | null {
  const tokenId = numberIn(entry, 'id')
  if (tokenId === undefined) return null
  return { tokenId, logprob: numberIn(entry, 'logprob') ?? -Infinity }
}
