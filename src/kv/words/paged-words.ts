/**
 * A growable array of 32-bit words without copying: pages of 16,384 words, zero where nothing was written.
 *
 * Used for per-holder data of up to a million holders: doubling a plain array would move megabytes in one call.
 */
import { grown } from './grown.ts'
import { tableLength } from './mix-hash.ts'

const PAGE_BITS = 14
const PAGE_WORDS = 1 << PAGE_BITS
const PAGE_MASK = PAGE_WORDS - 1
/** The first page starts this small and doubles, because most fleets are small. */
const FIRST_WORDS = 64

export class PagedWords {
  /** The first page, which is also `#pages[0]`: most words are read from it, with fewer steps. */
  #first = new Int32Array(FIRST_WORDS)
  readonly #pages: Int32Array[] = [this.#first]

  get bytes(): number {
    return this.#first.byteLength + 4 * PAGE_WORDS * (this.#pages.length - 1)
  }

  /** Number of words that there is space for. */
  get length(): number {
    return this.#pages.length === 1 ? this.#first.length : PAGE_WORDS * this.#pages.length
  }

  /** Makes space for words 0 .. length-1. */
  reserve(length: number): void {
    if (length <= this.length) return
    const first = this.#first
    if (first.length < PAGE_WORDS) {
      this.#first = grown(first, tableLength(first.length, Math.min(length, PAGE_WORDS)))
      this.#pages[0] = this.#first
    }
    while (this.length < length) this.#pages.push(new Int32Array(PAGE_WORDS))
  }

  get(i: number): number {
    const first = this.#first
    if (i < first.length) return first[i] as number
    return (this.#pages[i >>> PAGE_BITS] as Int32Array)[i & PAGE_MASK] as number
  }

  /** Like `get`, and 0 beyond the space. */
  at(i: number): number {
    const first = this.#first
    if (i < first.length) return first[i] as number
    return i < this.length ? this.get(i) : 0
  }

  set(i: number, word: number): void {
    const first = this.#first
    if (i < first.length) first[i] = word
    else (this.#pages[i >>> PAGE_BITS] as Int32Array)[i & PAGE_MASK] = word
  }

  add(i: number, change: number): number {
    const first = this.#first
    const page = i < first.length ? first : (this.#pages[i >>> PAGE_BITS] as Int32Array)
    const sum = (page[i & PAGE_MASK] as number) + change
    page[i & PAGE_MASK] = sum
    return sum
  }
}
