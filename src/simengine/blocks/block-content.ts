/**
 * The content of a simulated KV block, for subscribers that do not use Baton's hashes: the tokens, and what else is
 * hashed.
 */
import type { KvEvent } from '../../kv/index.ts'
import type { GenerateRequest } from '../../request/index.ts'

export interface BlockContent {
  readonly tokenIds: Uint32Array
  readonly loraName?: string
  readonly cacheSalt?: string
}

type Stored = Extract<KvEvent, { kind: 'stored' }>

/** Events as sent to Baton's routers; `contents`, one for each block, only if a subscriber needs them. */
export type SimKvEvent =
  | Exclude<KvEvent, Stored>
  | (Stored & { readonly contents?: readonly BlockContent[] })

/** Writes the output tokens from index `k` on to `target[at]` and following. */
export interface OutputTokens {
  fill(k: number, target: Uint32Array, at: number): void
}

/** `output` follows the prompt tokens. */
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

/** Writes the tokens of the full block `block` into `tokens`, whose length is the block size. */
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
