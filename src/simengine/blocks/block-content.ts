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

/** `tokenAt` gives the tokens of the output, which follow those of the prompt. */
export function blockContent(
  request: GenerateRequest,
  blockTokens: number,
  block: number,
  tokenAt: (outputIndex: number) => number,
): BlockContent {
  const { loraName, cacheSalt } = request.routing
  return {
    tokenIds: blockTokenIds(request, blockTokens, block, tokenAt),
    ...(loraName === undefined ? {} : { loraName }),
    ...(cacheSalt === undefined ? {} : { cacheSalt }),
  }
}

export function blockTokenIds(
  { tokenIds }: GenerateRequest,
  blockTokens: number,
  block: number,
  tokenAt: (outputIndex: number) => number,
): Uint32Array {
  const tokens = new Uint32Array(blockTokens)
  const from = block * blockTokens
  for (let i = 0; i < blockTokens; i++) {
    const index = from + i
    tokens[i] = index < tokenIds.length ? tokenIds[index]! : tokenAt(index - tokenIds.length)
  }
  return tokens
}
