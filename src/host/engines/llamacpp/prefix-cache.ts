/**
 * Between the block store and the slots: loads what is held of a prompt, stores what was computed of it.
 *
 * Only KV that was computed in the shape of a prompt is stored; the KV of output tokens is not, because it may differ
 * from it in the last bits. Tells the events of full blocks, in the order in which they happened.
 */
import { promptBlocks, tokensOfBlock } from '../../../engine/index.ts'
import type { KvBlockStore } from '../../../engine/index.ts'
import type { KvEventLog } from './kv-event-log.ts'
import type { NativeSession } from './native-session.ts'
import type { SequenceRun } from './sequence-run.ts'
import { cutBlock } from './state-codec.ts'
import type { StateBlock } from './state-codec.ts'

export class PrefixCache {
  readonly store: KvBlockStore
  readonly #session: NativeSession
  readonly #events: KvEventLog

  constructor(session: NativeSession, store: KvBlockStore, events: KvEventLog) {
    this.#session = session
    this.store = store
    this.#events = events
  }

  /** Fills the run's empty slot with the longest held prefix of its prompt. */
  async load(run: SequenceRun): Promise<void> {
    const { tokenIds, routing } = run.request
    const { blockTokens } = this.store
    const blocks = promptBlocks(tokenIds, run.prefillTokens, blockTokens, routing.cacheSalt)
    run.blocks = blocks
    const held = this.store.heldPrefix(blocks.keys)
    if (held === 0) return
    const parts: StateBlock[] = []
    let tokenCount = 0
    for (let i = 0; i < held; i++) {
      const bytes = this.store.get(blocks.keys[2 * i] ?? 0, blocks.keys[2 * i + 1] ?? 0)
      if (bytes === undefined) break
      parts.push({ bytes, tokenCount: tokensOfBlock(blocks, i) })
      tokenCount += tokensOfBlock(blocks, i)
    }
    try {
      await this.#session.loadBlocks(run.slot, parts)
      run.computedTokens = tokenCount
      run.cachedTokens = tokenCount
    } catch {
      // No room for the file: the prompt is computed, which usage shows as fewer cached tokens.
      this.#session.clearSequence(run.slot)
    }
    run.hold(undefined)
  }

  /** What was handed over for this run stays until it is loaded, however long the run waits. */
  holdOffered(run: SequenceRun): void {
    const { tokenIds, routing, prefillResult } = run.request
    if (prefillResult?.kvOffer !== undefined) run.hold(this.store.pin(tokenIds, routing.cacheSalt))
  }

  /** The blocks of a finished prefill stay until its reader has had the time to pin them. */
  holdComputed(run: SequenceRun): void {
    run.hold(this.store.pin(run.request.tokenIds, run.request.routing.cacheSalt))
  }

  /** Takes the blocks that the run has computed out of its slot, which holds its prefill and nothing more. */
  async keep(run: SequenceRun): Promise<void> {
    const { blocks } = run
    if (blocks === undefined || blocks.blockCount === 0) return
    const { keys } = blocks
    const missing = this.store.missing(keys)
    if (missing.length === 0) return
    const state = await this.#session.saveState(run.slot)
    // From the last to the first: the store drops the end of a chain before its beginning.
    for (const i of missing.toReversed()) {
      const from = i * blocks.blockTokens
      const tokenCount = tokensOfBlock(blocks, i)
      const bytes = cutBlock(state, from, from + tokenCount)
      if (!this.store.put(keys[2 * i] ?? 0, keys[2 * i + 1] ?? 0, tokenCount, bytes)) break
    }
    const stored = missing.filter(
      (i) => i < blocks.fullBlocks && this.store.has(keys[2 * i] ?? 0, keys[2 * i + 1] ?? 0),
    )
    this.#noteStored(keys, stored)
  }

  /** One event per run of consecutive blocks. */
  #noteStored(keys: Uint32Array, indexes: readonly number[]): void {
    for (let at = 0; at < indexes.length;) {
      const first = indexes[at] ?? 0
      let count = 1
      while (indexes[at + count] === first + count) count++
      const parent = [keys[2 * first - 2] ?? 0, keys[2 * first - 1] ?? 0] as const
      this.#events.stored(first === 0 ? null : parent, keys.slice(2 * first, 2 * (first + count)))
      at += count
    }
  }
}
