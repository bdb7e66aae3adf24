/**
 * How the next token is chosen, when generation stops, and what is reported beside the tokens.
 * Absent always means "not asked for": the engine's own default applies.
 */
export interface Sampling {
  readonly n?: number
  readonly temperature?: number
  readonly topP?: number
  /** -1 or absent: all tokens. */
  readonly topK?: number
  readonly minP?: number
  readonly seed?: number
  readonly presencePenalty?: number
  readonly frequencyPenalty?: number
  readonly repetitionPenalty?: number
  /** Token id → bias added to its logit, each in [-100, 100]. */
  readonly logitBias?: Readonly<Record<number, number>>
  readonly guided?: GuidedDecoding
}

/** The shape that the output must have; the engine enforces it while sampling. */
export type GuidedDecoding = GuidedShape & {
  /** What the client calls it (`response_format`, `tools`, …): a refusal names it as `data.param`. */
  readonly field?: string
  /** Of a schema: what no grammar can hold is left out instead of refused. */
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
  /** Texts that end the output; looked for by the frontend's detokeniser, never by the engine. */
  readonly stop?: readonly string[]
  /** Ids that end the output; not part of it. */
  readonly stopTokenIds?: readonly number[]
  readonly ignoreEos?: boolean
  readonly includeStopInOutput?: boolean
  readonly maxThinkingTokens?: number
}

/**
 * The frontend may end the output at a text, and reads nothing more from the engine then: with such a request the first
 * token carries `usage`, so that its cached tokens are reported at all.
 */
export function hasStopTexts({ stop }: StopConditions): boolean {
  return stop !== undefined && stop.length > 0
}

export interface OutputOptions {
  /** Log-probability of the chosen token and of this many alternatives; absent: none at all. */
  readonly logprobs?: number
  readonly promptLogprobs?: number
  /** Control tokens are left out of the text. Absent: true. */
  readonly skipSpecialTokens?: boolean
}
