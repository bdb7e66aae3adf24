/**
 * A reply that records its items, for tests of anything that serves requests. It counts items after the end instead
 * of ignoring them.
 */
import type { BatonError } from '../../src/base/index.ts'
import type { Chunk, LegStart } from '../../src/request/index.ts'
import type { ReplyPort } from '../../src/wire/index.ts'

export class RecordedReply implements ReplyPort {
  readonly tokens: number[] = []
  readonly chunks: Chunk[] = []
  readonly starts: LegStart[] = []
  /** Resolves at the final item of any kind. */
  readonly ended: Promise<void>
  failure: BatonError | null = null
  terminal: Chunk | null = null
  itemsAfterEnd = 0
  isWritable = true
  #end: () => void = () => undefined
  #onDrained: (() => void)[] = []

  constructor() {
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  get hasEnded(): boolean {
    return this.failure !== null || this.terminal !== null
  }

  started(start: LegStart): void {
    this.#countLate()
    this.starts.push(start)
  }

  token(tokenId: number): void {
    this.#countLate()
    this.tokens.push(tokenId)
  }

  chunk(chunk: Chunk): void {
    this.#countLate()
    this.chunks.push(chunk)
    this.tokens.push(...chunk.tokenIds)
    if (chunk.finish === undefined) return
    this.terminal = chunk
    this.#end()
  }

  error(error: BatonError): void {
    this.#countLate()
    this.failure = error
    this.#end()
  }

  drained(): Promise<void> {
    if (this.isWritable) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onDrained.push(resolve)
    })
  }

  /** The receiver has granted credit again. */
  drain(): void {
    this.isWritable = true
    for (const resolve of this.#onDrained.splice(0)) resolve()
  }

  #countLate(): void {
    if (this.hasEnded) this.itemsAfterEnd++
  }
}
