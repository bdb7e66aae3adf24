/**
 * Text to token ids and back. Implementations: Baton's own byte-level BPE and SPM (vocabulary from a `tokenizer.json`
 * or a GGUF file), and the library for any other Hugging Face `tokenizer.json`.
 *
 * All are synchronous, never throw for any text (a lone surrogate becomes U+FFFD), and may be shared by all requests.
 */
export interface Tokenizer {
  /** One more than the highest id. */
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  /** The model needs a BOS token before a raw prompt (a chat template writes its own). */
  readonly addsBos: boolean
  /** Tokens that are found in the text before anything else is done. */
  readonly addedTokens: readonly AddedToken[]

  /**
   * Every byte of an (NFC-composed) text is represented in some token: nothing is dropped, and no unknown characters
   * are merged into one token. Absent: not known.
   */
  readonly isByteExact?: boolean

  encode(text: string, options: EncodeOptions): Uint32Array

  /**
   * As `encode`, in steps of some ten thousand characters, between which other texts may be encoded. Null: this text
   * cannot be divided into such steps. Absent: no text can be.
   */
  encodeInSteps?(text: string, options: EncodeOptions): Iterator<undefined, Uint32Array> | null

  /** The exact bytes of one token; empty for a control token or an unknown id. */
  tokenBytes(id: number): Uint8Array

  /** True for a control token, which is not part of the text unless it is requested by name. */
  isSpecial(id: number): boolean
  /** The token's name in the vocabulary; empty for an unknown id. */
  tokenName(id: number): string

  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string
}

export interface EncodeOptions {
  /**
   * `true`: names of control tokens in the text become their ids (a rendered chat template). `false`: they are plain
   * characters (user text).
   */
  readonly special: boolean
  /** Prepend the BOS token, if the model has one. */
  readonly addBos?: boolean
  /**
   * With `special: true`: ranges of user text, as ascending pairs [start, end) of UTF-16 indexes. A control token
   * that overlaps one of them is plain text.
   */
  readonly literalRanges?: readonly number[]
}

export interface AddedToken {
  readonly id: number
  readonly text: string
  /** A control token; other added tokens (`<think>`, `<tool_call>` of many models) are also found in user text. */
  readonly control: boolean
  /** Blanks to its left (or right) belong to the token. */
  readonly stripLeft?: boolean
  readonly stripRight?: boolean
}
