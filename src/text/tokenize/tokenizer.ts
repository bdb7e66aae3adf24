/**
 * Text to token ids and back. Implementations: byte-level BPE and SPM of our own (the vocabulary of a
 * `tokenizer.json` or of a GGUF file), and anything else that a Hugging Face `tokenizer.json` can describe.
 *
 * All of them are synchronous, never throw for any text (a lone surrogate is U+FFFD), and may be shared by all
 * requests.
 */
export interface Tokenizer {
  /** One more than the highest id. */
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  /** The model wants a BOS token before a raw prompt (a chat template writes its own). */
  readonly addsBos: boolean
  /** Tokens that are found in the text before anything else is done to it. */
  readonly addedTokens: readonly AddedToken[]

  /**
   * Every byte of a (composed) text comes out in some token: none is dropped, and nothing that is unknown is joined to one
   * token. Absent: not known.
   */
  readonly isByteExact?: boolean

  encode(text: string, options: EncodeOptions): Uint32Array

  /** The exact bytes of one token; empty for a control token. Ids that do not exist give no bytes. */
  tokenBytes(id: number): Uint8Array

  /** A control token: never part of the text unless somebody asks for it by name. */
  isSpecial(id: number): boolean
  /** The token as its vocabulary writes it; empty for an id that does not exist. */
  tokenName(id: number): string

  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string
}

export interface EncodeOptions {
  /**
   * `true`: the control tokens that appear in the text become their ids (a rendered chat template).
   * `false`: they are plain characters (what a user typed).
   */
  readonly special: boolean
  /** Put the BOS token in front, if the model has one. */
  readonly addBos?: boolean
  /**
   * With `special: true`: ranges that a user typed, as ascending pairs [start, end) of UTF-16 indices. A control
   * token that touches one of them is plain text.
   */
  readonly literalRanges?: readonly number[]
}

export interface AddedToken {
  readonly id: number
  readonly text: string
  /** A control token; the others (`<think>`, `<tool_call>` of many models) are found in user text as well. */
  readonly control: boolean
  /** Blanks to the left (right) of it belong to it. */
  readonly stripLeft?: boolean
  readonly stripRight?: boolean
}
