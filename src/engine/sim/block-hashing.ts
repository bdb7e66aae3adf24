/**
 * Hashes of a simulated request's blocks: the same chain that the router computes for its prompt.
 */
import { hashBlocks, hashPartial } from '../../kv/index.ts'
import type { GenerateRequest, RoutingHints } from '../../request/index.ts'

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
  const { tokenIds, routing } = request
  const tokens = new Uint32Array(blockTokens)
  for (let i = 0; i < blockTokens; i++) {
    const index = block * blockTokens + i
    tokens[i] = index < tokenIds.length ? tokenIds[index]! : tokenAt(index - tokenIds.length)
  }
  const parentHigh = block === 0 ? null : hashes[2 * block - 1]!
  const hash = hashPartial(hashes[2 * block - 2] ?? 0, parentHigh, tokens, seedNames(routing))
  hashes.push(hash[0], hash[1])
}

function seedNames(routing: RoutingHints): { loraName?: string; salt?: string } {
  const { loraName, cacheSalt } = routing
  return {
    ...(loraName === undefined ? {} : { loraName }),
    ...(cacheSalt === undefined ? {} : { salt: cacheSalt }),
  }
}
