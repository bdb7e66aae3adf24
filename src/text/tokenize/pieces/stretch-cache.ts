/**
 * Bounded cache from long stretches of text to token ids. A client sends the conversation again with every turn, and
 * the text between two control tokens (a message, a document) is the same as before, or has grown at its end if the
 * prompt has no control tokens. Two generations, like the cache of words.
 */
import type { TokenBuffer } from './token-buffer.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Shorter stretches are tokenized about as fast as they are looked up. */
const STRETCH_CHARS_MIN = 1024
/** Limit of one generation, in characters: with the token ids 3 to 6 MB. */
const GENERATION_CHARS_MAX = 1_500_000

/** Minimum length of a cached part, in characters. */
const PART_CHARS_MIN = 8192

/** Whether the text is always cut at `at`, whatever precedes the unit before it and follows the unit after it. */
export type IsCut = (text: string, at: number) => boolean

function partEnd(text: string, from: number, isCut: IsCut): number {
  for (let at = from + PART_CHARS_MIN; at + 1 < text.length; at++) if (isCut(text, at)) return at
  return text.length
}

export class StretchCache {
  #young = new Map<string, Uint32Array>()
  #youngChars = 0
  #old: ReadonlyMap<string, Uint32Array> = new Map()

  /**
   * Appends the ids of a text: cached ids, and what `encode` appends for the rest. With `isCut` the text is cached in
   * parts, so that a text that extends an earlier one finds all but its last part.
   */
  encode(
    text: string,
    ids: TokenBuffer,
    encode: (part: string, ids: TokenBuffer) => void,
    isCut: IsCut | null = null,
  ): void {
    for (let from = 0; from < text.length;) {
      const to = isCut === null ? text.length : partEnd(text, from, isCut)
      const part = to - from === text.length ? text : text.slice(from, to)
      const known = this.get(part)
      if (known === undefined) {
        const start = ids.length
        encode(part, ids)
        this.keep(part, ids, start)
      } else ids.pushRange(known, 0, known.length)
      from = to
    }
  }

  /** Undefined: not cached. The array must not be modified. */
  get(stretch: string): Uint32Array | undefined {
    if (stretch.length < STRETCH_CHARS_MIN) return undefined
    const known = this.#young.get(stretch)
    if (known !== undefined) return known
    const old = this.#old.get(stretch)
    // The key is copied, because the map does not return the key that it has.
    if (old !== undefined) this.#add(detached(stretch), old)
    return old
  }

  /** Caches the ids from `start` on for this stretch, if it is long. The stretch must be well-formed Unicode. */
  keep(stretch: string, ids: TokenBuffer, start: number): void {
    const { length } = stretch
    if (length < STRETCH_CHARS_MIN || length > GENERATION_CHARS_MAX) return
    this.#add(detached(stretch), ids.since(start))
  }

  #add(stretch: string, ids: Uint32Array): void {
    if (this.#youngChars + stretch.length > GENERATION_CHARS_MAX) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngChars = 0
    }
    this.#young.set(stretch, ids)
    this.#youngChars += stretch.length
  }
}

/** A reused buffer, so that no memory is allocated per stretch. */
const bytes = new Uint8Array(64 * 1024)

/** A copy of the text: a slice would keep the whole conversation in memory. */
function detached(text: string): string {
  const { read, written } = encoder.encodeInto(text, bytes)
  return decoder.decode(read === text.length ? bytes.subarray(0, written) : encoder.encode(text))
}
