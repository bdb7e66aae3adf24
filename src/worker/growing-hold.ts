/**
 * The hold of an offer that is made before the prompt is computed to its end: it names every block from the beginning, and keeps those
 * that are there.
 */
import type { KvPin } from '../engine/index.ts'
import type { KvHold } from '../wire/index.ts'

export class GrowingHold implements KvHold {
  readonly tokenCount: number
  readonly blockKeys: Uint32Array
  readonly kvBytes: number
  #pin: KvPin
  #isReleased = false

  /** Takes over the pin of what is there. */
  constructor(whole: Pick<KvHold, 'tokenCount' | 'blockKeys' | 'kvBytes'>, pin: KvPin) {
    this.tokenCount = whole.tokenCount
    this.blockKeys = whole.blockKeys
    this.kvBytes = whole.kvBytes
    this.#pin = pin
  }

  /** Who pulls has all of it, or wants none of it any more. */
  get isReleased(): boolean {
    return this.#isReleased
  }

  get isWhole(): boolean {
    return this.#pin.tokenCount >= this.tokenCount
  }

  /** Takes over the pin of what is there now. */
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
