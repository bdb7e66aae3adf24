/** The fields shared by chat and completions: their schema with all limits, and their conversion to request values. */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import type { OutputOptions, Sampling, StopConditions } from '../../request/index.ts'
import { guidedFields, guidedOf } from './guided-fields.ts'
import { nvextSchema } from './nvext.ts'
import type { NvExt } from './nvext.ts'
import { given } from './plain-fields.ts'
import { fieldsSchema, recordSchema } from './record-schema.ts'

export const CHOICES_MAX = 128
export const STOPS_MAX = 32
/** Each token of the output is compared with all of them. */
const STOP_LENGTH_MAX = 4096
const PROMPT_LOGPROBS_MAX = 20
const MAX_U32 = 0xffffffff

const biasFault = (token: string, bias: unknown): string | null => {
  if (!/^[0-9]{1,10}$/.test(token)) return 'keys must be token ids'
  return typeof bias === 'number' && Math.abs(bias) <= 100 ? null : 'must be from -100 to 100'
}
const tokenId = z.int().min(0).max(MAX_U32)
export const stopText = z.string().min(1).max(STOP_LENGTH_MAX)
const stop = z.union(
  [stopText, z.array(stopText).max(STOPS_MAX), z.array(tokenId).max(STOPS_MAX)],
  `must be a text of at most ${STOP_LENGTH_MAX} characters, or up to ${STOPS_MAX} texts or token ids`,
)

export const generationFields = {
  model: z.string().regex(/\S/, 'must not be blank').optional(),
  stream: z.boolean().optional(),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().optional(),
      continuous_usage_stats: z.boolean().optional(),
      include_obfuscation: z.boolean().optional(),
    })
    .optional(),
  n: z.int().min(1).max(CHOICES_MAX).optional(),
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_k: z.int().min(-1).max(MAX_U32).optional(),
  min_p: z.number().min(0).max(1).optional(),
  seed: z.int().optional(),
  frequency_penalty: z.number().min(-2).max(2).optional(),
  presence_penalty: z.number().min(-2).max(2).optional(),
  repetition_penalty: z.number().gt(0).max(2).optional(),
  logit_bias: recordSchema<number>('number', biasFault).optional(),
  max_tokens: z.int().min(0).max(MAX_U32).optional(),
  min_tokens: z.int().min(0).max(MAX_U32).optional(),
  ignore_eos: z.boolean().optional(),
  stop: stop.optional(),
  stop_token_ids: z.array(tokenId).max(STOPS_MAX).optional(),
  include_stop_str_in_output: z.boolean().optional(),
  skip_special_tokens: z.boolean().optional(),
  return_tokens_as_token_ids: z.boolean().optional(),
  /** vLLM's name: return the ids of prompt and output with the text. */
  return_token_ids: z.boolean().optional(),
  /** vLLM's name: log-probabilities of the prompt tokens, with this many alternatives each. */
  prompt_logprobs: z.int().min(0).max(PROMPT_LOGPROBS_MAX).optional(),
  cache_salt: z.string().optional(),
  user: z.string().regex(/\S/, 'must not be blank').optional(),
  /** Accepted for the client's own records; no effect here. */
  metadata: fieldsSchema.optional(),
  store: z.boolean().optional(),
  service_tier: z.string().optional(),
  safety_identifier: z.string().optional(),
  prompt_cache_key: z.string().optional(),
  prompt_cache_retention: z.string().optional(),
  prompt_cache_options: z.looseObject({}).optional(),
  nvext: nvextSchema.optional(),
  ...guidedFields,
} as const

const generationObject = z.object(generationFields)
type GenerationFields = z.infer<typeof generationObject>

/** The options of every generating call, as values of room `request`. */
export interface GenerationOptions {
  /** Undefined: the only model that is served. */
  readonly model?: string
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly continuousUsage: boolean
  readonly choiceCount: number
  readonly sampling: Sampling
  readonly stop: StopConditions
  readonly output: OutputOptions
  /** Show tokens in log-probabilities as `token_id:<id>`. */
  readonly tokensAsIds: boolean
  /** The reply contains the ids of its tokens. */
  readonly keepsTokenIds?: boolean
  /** The ids are next to the text, together with those of the prompt. */
  readonly showsTokenIds?: boolean
  /** Return only this many of the choices, those with the highest likelihood. Absent: all. */
  readonly bestOf?: number
  /** Log-probabilities are requested from the engine but not returned to the client. */
  readonly hidesLogprobs?: boolean
  /** The reply contains a list of them next to the text. */
  readonly showsPromptLogprobs?: boolean
  readonly nvext: NvExt
}

/** KV hand-over fields that a client could forge; they are removed before anything is parsed. */
const TRANSFER_FIELDS: ReadonlySet<string> = new Set([
  'kv_transfer_params',
  'disaggregated_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'bootstrap_info',
  'prefill_result',
])

export function stripTransferFields(body: Record<string, unknown>): Record<string, unknown> {
  for (const name in body) if (TRANSFER_FIELDS.has(name)) delete body[name]
  return body
}

/** Defaults of other servers that their clients send; any other value of these fields is refused by name. */
const NO_OPS: ReadonlyMap<string, unknown> = new Map<string, unknown>(
  Object.entries({
    detokenize: true,
    use_beam_search: false,
    priority: 0,
    include_reasoning: true,
    separate_reasoning: true,
    stream_reasoning: true,
    spaces_between_special_tokens: true,
    return_hidden_states: false,
    no_stop_trim: false,
    // llama-server.
    cache_prompt: true,
    id_slot: -1,
    timings_per_token: false,
    // Beam search.
    length_penalty: 1,
    early_stopping: false,
  }),
)

/** Fields that are accepted if empty; otherwise refused by name. */
const EMPTY: ReadonlySet<string> = new Set([
  'bad_words',
  'logits_processors',
  'vllm_xargs',
  'mm_processor_kwargs',
])

export function stripNoOps(
  body: Record<string, unknown>,
  more: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  // Iterates over the body, which has few fields, instead of over these lists.
  for (const name in body) {
    const value = body[name]
    const isNoOp =
      (NO_OPS.has(name) && NO_OPS.get(name) === value) ||
      (Object.hasOwn(more, name) && more[name] === value) ||
      (EMPTY.has(name) && isEmpty(value))
    if (isNoOp) delete body[name]
  }
  return body
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

export function generationOptions(
  fields: GenerationFields,
  own: { readonly maxTokens: number | undefined; readonly output: OutputOptions },
): GenerationOptions {
  const nvext = nvextWithSalt(fields)
  refuseContradictions(fields, own.maxTokens)
  const temperature = nvext.greed_sampling === true ? 0 : fields.temperature
  return {
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    continuousUsage: fields.stream_options?.continuous_usage_stats ?? false,
    choiceCount: fields.n ?? 1,
    sampling: given({
      temperature,
      topP: fields.top_p,
      topK: fields.top_k === 0 ? -1 : fields.top_k,
      minP: fields.min_p,
      seed: fields.seed,
      presencePenalty: fields.presence_penalty,
      frequencyPenalty: fields.frequency_penalty,
      repetitionPenalty: fields.repetition_penalty,
      logitBias: fields.logit_bias as Record<number, number> | undefined,
      guided: guidedOf(fields),
    }),
    stop: stopConditions(fields, own.maxTokens, nvext),
    output: Object.assign(
      given({
        promptLogprobs: fields.prompt_logprobs,
        skipSpecialTokens: fields.skip_special_tokens,
      }),
      own.output,
    ),
    tokensAsIds: fields.return_tokens_as_token_ids ?? false,
    nvext,
    ...given({ model: fields.model }),
    ...(fields.return_token_ids === true ? { keepsTokenIds: true, showsTokenIds: true } : {}),
  }
}

function stopConditions(
  fields: GenerationFields,
  maxTokens: number | undefined,
  nvext: NvExt,
): StopConditions {
  const given_ = typeof fields.stop === 'string' ? [fields.stop] : (fields.stop ?? [])
  const texts = given_.filter((entry) => typeof entry === 'string')
  const ids = given_.filter((entry) => typeof entry === 'number')
  const stopTokenIds = [...(fields.stop_token_ids ?? []), ...ids]
  return given({
    maxTokens,
    minTokens: fields.min_tokens,
    stop: texts.length > 0 ? texts : undefined,
    stopTokenIds: stopTokenIds.length > 0 ? stopTokenIds : undefined,
    ignoreEos: fields.ignore_eos,
    includeStopInOutput: fields.include_stop_str_in_output,
    maxThinkingTokens: nvext.max_thinking_tokens,
  })
}

function nvextWithSalt(fields: GenerationFields): NvExt {
  const nvext = fields.nvext ?? {}
  const own = nvext.cache_salt
  if ((own !== undefined && own !== '') || fields.cache_salt === undefined) return nvext
  return { ...nvext, cache_salt: fields.cache_salt }
}

function refuseContradictions(fields: GenerationFields, maxTokens: number | undefined): void {
  const { min_tokens: minTokens } = fields
  if (minTokens !== undefined && maxTokens !== undefined && minTokens > maxTokens) {
    throw invalid(
      'min_tokens',
      `${minTokens} is more than the ${maxTokens} that are allowed at most`,
    )
  }
  if (fields.stream !== true && fields.stream_options !== undefined) {
    throw invalid('stream_options', 'is only allowed when `stream` is true')
  }
  const choices = fields.n ?? 1
  if (choices > 1 && (fields.temperature === 0 || fields.nvext?.greed_sampling === true)) {
    throw invalid('n', 'must be 1 with temperature 0: all choices would be the same text')
  }
  if (choices > 1 && fields.nvext?.extra_fields?.includes('completion_token_ids') === true) {
    throw invalid('nvext.extra_fields', '`completion_token_ids` needs exactly one choice')
  }
  if (fields.nvext?.extra_fields?.includes('prompt_logprobs') === true) {
    throw unsupported('nvext.extra_fields: prompt_logprobs', 'is the field `prompt_logprobs` here')
  }
  if (fields.prompt_logprobs !== undefined && fields.stream === true) {
    throw invalid('prompt_logprobs', 'requires a reply that is not streamed')
  }
  if (fields.stream_options?.include_obfuscation === true) {
    throw unsupported('stream_options.include_obfuscation')
  }
}

export function invalid(param: string, what: string): BatonError {
  return new BatonError('request.invalid_argument', `\`${param}\`: ${what}`, { data: { param } })
}

export function unsupported(param: string, why = 'is not supported by this server'): BatonError {
  return new BatonError('request.unsupported_parameter', `\`${param}\` ${why}`, {
    data: { param },
  })
}
