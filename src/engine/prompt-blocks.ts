/** The keys of the blocks that cover the first tokens of a prompt: full blocks, and one partial block for the rest. */
import { hashSequence, hashPartial } from '../kv/index.ts'

export interface PromptBlocks {
  readonly blockTokens: number
  readonly tokenCount: number
  readonly blockCount: number
  readonly fullBlocks: number
  /** (low, high) pairs of u32, in order. */
  readonly keys: Uint32Array
}

export function promptBlocks(
  tokenIds: Uint32Array,
  tokenCount: number,
  blockTokens: number,
  salt?: string,
  loraName?: string,
): PromptBlocks {
  const covered = tokenIds.subarray(0, tokenCount)
  const fullBlocks = Math.floor(tokenCount / blockTokens)
  const blockCount = Math.ceil(tokenCount / blockTokens)
  const names = {
    ...(salt === undefined ? {} : { salt }),
    ...(loraName === undefined ? {} : { loraName }),
  }
  const keys = new Uint32Array(blockCount * 2)
  keys.set(hashSequence(covered, blockTokens, names))
  if (blockCount > fullBlocks) {
    const last = 2 * (fullBlocks - 1)
    const rest = covered.slice(fullBlocks * blockTokens)
    const parent = fullBlocks === 0 ? null : (keys[last + 1] ?? 0)
    keys.set(hashPartial(keys[last] ?? 0, parent, rest, names), 2 * fullBlocks)
  }
  return { blockTokens, tokenCount, blockCount, fullBlocks, keys }
}

/** Number of tokens in block `index`. */
export function tokensOfBlock(blocks: PromptBlocks, index: number): number {
  return index < blocks.fullBlocks
    ? blocks.blockTokens
    : blocks.tokenCount - blocks.fullBlocks * blocks.blockTokens
}
