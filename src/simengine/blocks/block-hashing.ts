/** Hashes of a simulated request's blocks: the same chain that the router computes for its prompt. */
import { hashPartial, hashSequence } from '../../kv/index.ts'
import type { GenerateRequest, RoutingHints } from '../../request/index.ts'
import { fillBlock } from './block-content.ts'
import type { OutputTokens } from './block-content.ts'
import type { HashChain } from './hash-chain.ts'

/** Sequence hashes of the full blocks of the prompt. */
export function hashPrompt(request: GenerateRequest, blockTokens: number): Uint32Array {
  return hashSequence(request.tokenIds, blockTokens, seedNames(request.routing))
}

/** Scratch space for one block; all code here is synchronous. */
let scratch = new Uint32Array(0)

/** Appends the hash of the full block `block`, which contains output tokens, to `hashes`. */
export function hashBlockOfOutput(
  hashes: HashChain,
  request: GenerateRequest,
  blockTokens: number,
  block: number,
  output: OutputTokens,
): void {
  if (scratch.length !== blockTokens) scratch = new Uint32Array(blockTokens)
  const tokens = fillBlock(scratch, request, block, output)
  const { words } = hashes
  const parentHigh = block === 0 ? null : words[2 * block - 1]!
  const hash = hashPartial(
    words[2 * block - 2] ?? 0,
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
