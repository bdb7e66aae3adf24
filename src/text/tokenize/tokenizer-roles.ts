/**
 * What a tokenizer needs beside its vocabulary.
 */
export interface TokenizerRoles {
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addsBos: boolean
}
