/**
 * Hashes of a simulated request's blocks: the same chain that the router computes for its prompt.
 */
import { hashBlocks, hashPartial } from '../../kv/index.ts'
import type { GenerateRequest, RoutingHints } from '../../request/index.ts'
import { blockTokenIds } from './block-content.ts'

/** Sequence hashes of the full blocks of the prompt. */
export function hashPrompt(request: GenerateRequest, blockTokens: number): Uint32Array {
  return hashBlocks(request.tokenIds, blockTokens, seedNames(request.routing)).sequence
}

/** Appends to `hashes` the hash of the full block `block`, which holds tokens of the output (`tokenAt`). */
export function hashBlockOfOutput(
  hashes: number[],
  request: GenerateRequest,
  blockTokens: number,
  block: number,
  tokenAt: (outputIndex: number) => number,
): void {
  const tokens = blockTokenIds(request, blockTokens, block, tokenAt)
  const parentHigh = block === 0 ? null : hashes[2 * block - 1]!
  const hash = hashPartial(
    hashes[2 * block - 2] ?? 0,
    parentHigh,
    tokens,
    seedNames(request.routing),
  )
  hashes.push(hash[0], hash[1])
}

function seedNames(routing: RoutingHints): { loraName?: string; salt?: string } {
  const { loraName, cacheSalt } = routing
  return {
    ...(loraName === undefined ? {} : { loraName }),
    ...(cacheSalt === undefined ? {} : { salt: cacheSalt }),
  }
}
