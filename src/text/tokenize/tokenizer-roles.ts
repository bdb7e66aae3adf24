/** The special token ids that a tokenizer needs besides its vocabulary. */
export interface TokenizerRoles {
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
}
