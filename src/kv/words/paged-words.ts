/**
 * A growable array of 32-bit words without copying: pages of 16,384 words, zero where nothing was written.
 *
 * Used for per-holder data of up to a million holders: doubling a plain array would move megabytes in one call.
 */
const PAGE_BITS = 14
const PAGE_WORDS = 1 << PAGE_BITS
const PAGE_MASK = PAGE_WORDS - 1
/** The first page starts this small and doubles, because most fleets are small. */
const FIRST_WORDS = 64

export class PagedWords {
  readonly #pages: Int32Array[] = [new Int32Array(FIRST_WORDS)]

  get bytes(): number {
    const first = (this.#pages[0] as Int32Array).byteLength
    return first + 4 * PAGE_WORDS * (this.#pages.length - 1)
  }

  /** Number of words that there is space for. */
  get length(): number {
    return this.#pages.length === 1
      ? (this.#pages[0] as Int32Array).length
      : PAGE_WORDS * this.#pages.length
  }

  /** Makes space for words 0 .. length-1. */
  reserve(length: number): void {
    if (length <= this.length) return
    const first = this.#pages[0] as Int32Array
    if (first.length < PAGE_WORDS) {
      let words = first.length
      while (words < Math.min(length, PAGE_WORDS)) words *= 2
      const grown = new Int32Array(words)
      grown.set(first)
      this.#pages[0] = grown
    }
    while (this.length < length) this.#pages.push(new Int32Array(PAGE_WORDS))
  }

  get(i: number): number {
    return (this.#pages[i >>> PAGE_BITS] as Int32Array)[i & PAGE_MASK] as number
  }

  set(i: number, word: number): void {
    ;(this.#pages[i >>> PAGE_BITS] as Int32Array)[i & PAGE_MASK] = word
  }

  add(i: number, change: number): number {
    const page = this.#pages[i >>> PAGE_BITS] as Int32Array
    const sum = (page[i & PAGE_MASK] as number) + change
    page[i & PAGE_MASK] = sum
    return sum
  }
}
