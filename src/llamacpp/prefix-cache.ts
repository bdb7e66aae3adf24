/**
 * Connects the block store with the engine's thread: finds the cached blocks of a prompt, provides memory for the
 * missing ones, and stores them once they are written.
 *
 * Only KV that was computed in the shape of a prompt is stored. The KV of output tokens is not, because its last
 * bits may differ. Reports the events of full blocks in order.
 */
import { promptBlocks, tokensOfBlock } from '../engine/index.ts'
import type { KvBlockStore, KvPin, PromptBlocks } from '../engine/index.ts'
import type { KvEventLog } from './kv-event-log.ts'
import type { SequenceRun } from './sequence-run.ts'
import type { BlockMemory } from './thread/thread-messages.ts'

export const NO_BLOCKS: BlockMemory = {
  addresses: new BigUint64Array(0),
  ranges: new Uint32Array(0),
}

/** For one run while the thread has it: the memory that the thread may read and write. */
export interface CachedPrompt {
  readonly held: BlockMemory
  readonly wanted: BlockMemory
  /** Keeps the cached blocks in the store and their memory in place. */
  readonly pin: KvPin
  readonly blocks: PromptBlocks
  /** In order; stored blocks are removed from it. */
  missing: readonly WantedBlock[]
}

interface WantedBlock {
  readonly index: number
  readonly bytes: Uint8Array
}

interface PrefixCacheOptions {
  readonly bytesPerToken: number
  readonly events: KvEventLog
  readonly addressOf: (bytes: Uint8Array) => bigint
}

export class PrefixCache {
  readonly store: KvBlockStore
  readonly #options: PrefixCacheOptions

  constructor(store: KvBlockStore, options: PrefixCacheOptions) {
    this.store = store
    this.#options = options
  }

  /** The data for the thread about a prompt whose first `prefillTokens` are computed as one. */
  open(run: SequenceRun, prefillTokens: number): CachedPrompt {
    const { tokenIds, routing, output } = run.request
    const { blockTokens } = this.store
    const blocks = promptBlocks(tokenIds, prefillTokens, blockTokens, routing.cacheSalt)
    // Prompt log-probabilities need the logits, so the prompt is computed even if it is cached.
    const isComputed = output.promptLogprobs !== undefined
    const pinned = isComputed ? tokenIds.subarray(0, 1) : tokenIds.subarray(0, prefillTokens + 1)
    const pin = this.store.pin(pinned, routing.cacheSalt)
    const held: MemoryRange[] = []
    for (let i = 0; 2 * i < pin.blockKeys.length; i++) {
      const bytes = this.store.get(pin.blockKeys[2 * i] ?? 0, pin.blockKeys[2 * i + 1] ?? 0)
      if (bytes === undefined) break
      held.push([bytes, i * blockTokens, tokensOfBlock(blocks, i)])
    }
    const missing = this.store.missing(blocks.keys).map((index) => ({
      index,
      bytes: this.store.allocate(tokensOfBlock(blocks, index) * this.#options.bytesPerToken),
    }))
    const wanted = missing.map(({ index, bytes }): MemoryRange => [
      bytes,
      index * blockTokens,
      tokensOfBlock(blocks, index),
    ])
    return { held: this.#memoryOf(held), wanted: this.#memoryOf(wanted), pin, blocks, missing }
  }

  /** Blocks that were transferred for this run are kept until they are loaded, however long the run waits. */
  holdOffered(run: SequenceRun): void {
    const { tokenIds, routing, prefillResult } = run.request
    if (prefillResult?.kvOffer !== undefined) run.hold(this.store.pin(tokenIds, routing.cacheSalt))
  }

  /** The blocks of a finished prefill are kept until its reader has had time to pin them. */
  holdComputed(run: SequenceRun): void {
    run.hold(this.store.pin(run.request.tokenIds, run.request.routing.cacheSalt))
  }

  /** Stores the blocks of the first `tokens` tokens, which the thread has written. */
  keep(cached: CachedPrompt, tokens = Infinity): void {
    const { blocks } = cached
    const { keys, blockTokens } = blocks
    const isWritten = ({ index }: WantedBlock): boolean =>
      index * blockTokens + tokensOfBlock(blocks, index) <= tokens
    const missing = cached.missing.filter(isWritten)
    cached.missing = cached.missing.filter((block) => !isWritten(block))
    const keyOf = (index: number): readonly [number, number] => [
      keys[2 * index] ?? 0,
      keys[2 * index + 1] ?? 0,
    ]
    const fresh = missing.filter(({ index }) => !this.store.has(...keyOf(index)))
    // From the last to the first, because the store evicts the end of a chain before its beginning.
    for (const { index, bytes } of missing.toReversed()) {
      if (!this.store.put(...keyOf(index), tokensOfBlock(blocks, index), bytes)) break
    }
    const stored = fresh
      .map(({ index }) => index)
      .filter((index) => index < blocks.fullBlocks && this.store.has(...keyOf(index)))
    this.#noteStored(keys, stored)
  }

  #memoryOf(ranges: readonly MemoryRange[]): BlockMemory {
    if (ranges.length === 0) return NO_BLOCKS
    const { addressOf } = this.#options
    return {
      addresses: BigUint64Array.from(ranges, ([bytes]) => addressOf(bytes)),
      ranges: Uint32Array.from(ranges.flatMap(([, from, tokenCount]) => [from, tokenCount])),
    }
  }

  /** One event per sequence of consecutive blocks. */
  #noteStored(keys: Uint32Array, indexes: readonly number[]): void {
    for (let at = 0; at < indexes.length;) {
      const first = indexes[at] ?? 0
      let count = 1
      while (indexes[at + count] === first + count) count++
      const parent = [keys[2 * first - 2] ?? 0, keys[2 * first - 1] ?? 0] as const
      this.#options.events.stored(
        first === 0 ? null : parent,
        keys.slice(2 * first, 2 * (first + count)),
      )
      at += count
    }
  }
}

type MemoryRange = readonly [bytes: Uint8Array, from: number, tokenCount: number]
