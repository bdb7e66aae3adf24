/**
 * Sampling parameters, stop conditions and output options. An absent field means "not requested": the engine's
 * default applies.
 */
export interface Sampling {
  readonly n?: number
  readonly temperature?: number
  readonly topP?: number
  /** -1 or absent: no limit. */
  readonly topK?: number
  readonly minP?: number
  readonly seed?: number
  readonly presencePenalty?: number
  readonly frequencyPenalty?: number
  readonly repetitionPenalty?: number
  /** Token id → bias added to its logit, from -100 to 100. */
  readonly logitBias?: Readonly<Record<number, number>>
  readonly guided?: GuidedDecoding
}

/** A constraint on the output that the engine enforces while sampling (structured output). */
export type GuidedDecoding = GuidedShape & {
  /** The API field that set it (`response_format`, `tools`, …); a refusal reports it as `data.param`. */
  readonly field?: string
  /** Parts of a schema that a grammar cannot express are ignored instead of refused. */
  readonly isRelaxed?: boolean
}

type GuidedShape =
  | { readonly kind: 'json' }
  | { readonly kind: 'json-schema'; readonly schema: unknown }
  | { readonly kind: 'regex'; readonly pattern: string }
  | { readonly kind: 'choice'; readonly choices: readonly string[] }
  | { readonly kind: 'grammar'; readonly gbnf: string }

export interface StopConditions {
  readonly maxTokens?: number
  readonly minTokens?: number
  /** Texts that end the output; found by the frontend's detokenizer, never by the engine. */
  readonly stop?: readonly string[]
  /** Token ids that end the output and are not part of it. */
  readonly stopTokenIds?: readonly number[]
  readonly ignoreEos?: boolean
  readonly includeStopInOutput?: boolean
  readonly maxThinkingTokens?: number
}

/**
 * True if the frontend may end the output at a stop text and then reads nothing more from the engine. The engine must
 * then send `usage` with the first token, so that the number of cached tokens is reported at all.
 */
export function hasStopTexts({ stop }: StopConditions): boolean {
  return stop !== undefined && stop.length > 0
}

export interface OutputOptions {
  /** Number of alternatives per token, besides the chosen one; absent: no log-probabilities. */
  readonly logprobs?: number
  readonly promptLogprobs?: number
  /** Omit control tokens from the text. Absent: true. */
  readonly skipSpecialTokens?: boolean
}
