/**
 * The simulated engine with real KV transfer: the blocks of a prefill worker contain the bytes of their tokens, and
 * a decode worker checks that the pulled blocks match its prompt.
 *
 * Without it the simulated engine only counts the time of a transfer. With it offers, leases, pulls and pins are
 * those of the real worker, and leaks can be detected.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { KvBlockStore, promptBlocks, tokensOfBlock } from '../../engine/index.ts'
import type { Engine, EngineObserver, GenerateContext } from '../../engine/index.ts'
import type { SimEngine } from '../../simengine/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../../request/index.ts'

const BYTES_PER_TOKEN = 4

export class HandedOverEngine implements Engine {
  readonly kvBlocks: KvBlockStore
  readonly #inner: SimEngine

  constructor(inner: SimEngine, capacityTokens: number) {
    this.#inner = inner
    this.kvBlocks = new KvBlockStore({
      fingerprint: 'sim',
      blockTokens: inner.config.scheduler.blockTokens,
      bytesPerToken: BYTES_PER_TOKEN,
      capacityBytes: capacityTokens * BYTES_PER_TOKEN,
    })
  }

  start(workerId: WorkerId): Promise<EngineConfig> {
    return this.#inner.start(workerId)
  }

  async *generate(
    request: GenerateRequest,
    context: GenerateContext,
  ): AsyncGenerator<Chunk, void, undefined> {
    if (request.prefillResult?.kvOffer !== undefined) this.#checkBlocks(request)
    for await (const chunk of this.#inner.generate(request, context)) {
      const isComputed = chunk.finish !== undefined && chunk.finish !== 'cancelled'
      if (isComputed && this.#inner.config.mode === 'prefill') this.#keepBlocks(request)
      yield chunk
    }
  }

  abort(requestId: string): void {
    this.#inner.abort(requestId)
  }

  drain(): Promise<void> {
    return this.#inner.drain()
  }

  isQuiescent(): boolean {
    return this.#inner.isQuiescent()
  }

  cleanup(): Promise<void> {
    return this.#inner.cleanup()
  }

  get heldKv(): Engine['heldKv'] {
    return this.#inner.heldKv
  }

  observe(observer: EngineObserver): void {
    this.#inner.observe(observer)
  }

  #keepBlocks(request: GenerateRequest): void {
    forEachBlock(request, this.kvBlocks.blockTokens, (low, high, tokens) => {
      this.kvBlocks.put(low, high, tokens.length, bytesOf(tokens))
    })
  }

  #checkBlocks(request: GenerateRequest): void {
    forEachBlock(request, this.kvBlocks.blockTokens, (low, high, tokens) => {
      const held = this.kvBlocks.get(low, high)
      const wanted = bytesOf(tokens)
      if (held?.length === wanted.length && held.every((byte, i) => byte === wanted[i])) return
      throw new BatonError('runtime.internal', 'the transferred KV does not match the prompt')
    })
  }
}

/** The blocks of a prompt without its last token, which decode computes itself. */
function forEachBlock(
  { tokenIds, routing }: GenerateRequest,
  blockTokens: number,
  visit: (low: number, high: number, tokens: Uint32Array) => void,
): void {
  const { cacheSalt, loraName } = routing
  const blocks = promptBlocks(tokenIds, tokenIds.length - 1, blockTokens, cacheSalt, loraName)
  for (let i = 0; i < blocks.blockCount; i++) {
    const from = i * blockTokens
    const tokens = tokenIds.subarray(from, from + tokensOfBlock(blocks, i))
    visit(blocks.keys[2 * i] as number, blocks.keys[2 * i + 1] as number, tokens)
  }
}

function bytesOf(tokens: Uint32Array): Uint8Array {
  return new Uint8Array(tokens.slice().buffer)
}
