/**
 * The hold of an offer that is made before the prompt is completely computed: it names all blocks from the beginning
 * and pins those that exist.
 */
import type { KvPin } from '../engine/index.ts'
import type { KvHold } from '../wire/index.ts'

export class GrowingHold implements KvHold {
  readonly tokenCount: number
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  #pin: KvPin
  #isReleased = false

  /** Takes ownership of the pin of the existing blocks. */
  constructor(whole: Pick<KvHold, 'tokenCount' | 'blockKeys' | 'kvBytes'>, pin: KvPin) {
    this.tokenCount = whole.tokenCount
    this.blockKeys = whole.blockKeys
    this.kvBytes = whole.kvBytes
    this.#pin = pin
  }

  /** The puller has everything, or no longer wants it. */
  get isReleased(): boolean {
    return this.#isReleased
  }

  get isWhole(): boolean {
    return this.#pin.tokenCount >= this.tokenCount
  }

  /** Takes ownership of the pin of the blocks that exist now. */
  grow(pin: KvPin): void {
    if (this.#isReleased) {
      pin.release()
      return
    }
    const before = this.#pin
    this.#pin = pin
    before.release()
  }

  release(isStillRead?: boolean): void {
    this.#isReleased = true
    this.#pin.release(isStillRead)
  }
}
