/**
 * What is in a block of simulated KV, for subscribers that do not know Baton's hashes: the tokens, and what
 * else its hash is made of.
 */
import type { KvEvent } from '../../kv/index.ts'
import type { GenerateRequest } from '../../request/index.ts'

export interface BlockContent {
  readonly tokenIds: Uint32Array
  readonly loraName?: string
  readonly cacheSalt?: string
}

type Stored = Extract<KvEvent, { kind: 'stored' }>

/** As routers of Baton hear it; `contents`, one for each block, only where somebody wants them. */
export type SimKvEvent =
  | Exclude<KvEvent, Stored>
  | (Stored & { readonly contents?: readonly BlockContent[] })

/** The tokens of the output from index `k` on into `target[at]` and behind. */
export interface OutputTokens {
  fill(k: number, target: Uint32Array, at: number): void
}

/** `output` follows the tokens of the prompt. */
export function blockContent(
  request: GenerateRequest,
  blockTokens: number,
  block: number,
  output: OutputTokens,
): BlockContent {
  const { loraName, cacheSalt } = request.routing
  return {
    tokenIds: fillBlock(new Uint32Array(blockTokens), request, block, output),
    ...(loraName === undefined ? {} : { loraName }),
    ...(cacheSalt === undefined ? {} : { cacheSalt }),
  }
}

/** The tokens of the full block `block` into `tokens`, which is as long as a block. */
export function fillBlock(
  tokens: Uint32Array,
  { tokenIds }: GenerateRequest,
  block: number,
  output: OutputTokens,
): Uint32Array {
  const from = block * tokens.length
  const ofPrompt = Math.min(tokens.length, Math.max(0, tokenIds.length - from))
  if (ofPrompt > 0) tokens.set(tokenIds.subarray(from, from + ofPrompt))
  if (ofPrompt < tokens.length) output.fill(from + ofPrompt - tokenIds.length, tokens, ofPrompt)
  return tokens
}
