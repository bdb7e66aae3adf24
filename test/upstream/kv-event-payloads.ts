/** KV event payloads as foreign engines publish them, for tests of their readers. */

/** Token ids of `count` blocks of 16 tokens; `start` is the index of the first block. */
export const block = (start: number, count = 1): number[] =>
  Array.from({ length: 16 * count }, (_, i) => start * 16 + i + 1)

/** A `BlockStored` event of vLLM with `rest` as additional fields. */
export const stored = (
  hashes: readonly (bigint | number)[],
  parent: bigint | number | null,
  tokens: number[],
  rest: object = {},
): object => ({
  type: 'BlockStored',
  block_hashes: hashes,
  parent_block_hash: parent,
  token_ids: tokens,
  block_size: 16,
  lora_id: null,
  medium: 'GPU',
  ...rest,
})
