/**
 * A fast "surely not" to the question whether a block begins a run: a bitmap over the low halves of the hashes.
 *
 * Every block that a store adds is asked for, because a run may begin there whose head was removed. Two tables of
 * bits would not fit the first-level cache; one bit in at least sixteen keeps false alarms below one in ten.
 * Stale bits are harmless and are dropped when the bitmap is built anew.
 */
const WORDS_MIN = 64

export class StartFilter {
  words = new Int32Array(WORDS_MIN)
  /** Starts that were added since the bitmap was built, gone ones included. */
  #added = 0

  get bytes(): number {
    return this.words.byteLength
  }

  add(low: number): void {
    const { words } = this
    const word = (low >>> 5) & (words.length - 1)
    words[word] = (words[word] as number) | (1 << (low & 31))
    this.#added += 1
  }

  mayHave(low: number): boolean {
    const { words } = this
    return (((words[(low >>> 5) & (words.length - 1)] as number) >>> (low & 31)) & 1) !== 0
  }

  /** Whether it is time to call `reset` and to add all live starts again. */
  get isWorn(): boolean {
    return this.#added > 2 * this.words.length
  }

  /** Empties the bitmap and sizes it for the live starts. */
  reset(starts: number): void {
    let length = WORDS_MIN
    while (length < starts) length *= 2
    this.words = new Int32Array(length)
    this.#added = 0
  }
}
