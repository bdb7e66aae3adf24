/**
 * Text to token ids and back. Implementations: a Hugging Face `tokenizer.json`, the vocabulary of a GGUF file.
 */
export interface Tokenizer {
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]

  /**
   * `special: true`: the control tokens that appear in the text become their ids (a rendered chat template).
   * `special: false`: they are plain characters (what a user typed).
   */
  encode(
    text: string,
    options: { readonly special: boolean; readonly addBos?: boolean },
  ): Uint32Array

  /** The exact bytes of one token; empty for a control token. Ids that do not exist give no bytes. */
  tokenBytes(id: number): Uint8Array

  /** Bytes of a control token as its name, for `skipSpecialTokens: false`. */
  isSpecial(id: number): boolean
  tokenName(id: number): string

  decode(ids: ArrayLike<number>, options?: { readonly skipSpecialTokens?: boolean }): string
}
