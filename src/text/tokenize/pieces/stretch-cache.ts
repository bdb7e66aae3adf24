/**
 * Bounded memory of what long stretches of text became: a client sends a conversation again with every turn, and what lies
 * between two control tokens (a message, a document) is the same as before. Two generations, as of words.
 */
import type { TokenBuffer } from './token-buffer.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** A shorter stretch is tokenised about as fast as it is found. */
const STRETCH_CHARS_MIN = 1024
/** Of one generation: with the ids of its tokens 3 to 6 MB. */
const GENERATION_CHARS_MAX = 1_500_000

export class StretchCache {
  #young = new Map<string, Uint32Array>()
  #youngChars = 0
  #old: ReadonlyMap<string, Uint32Array> = new Map()

  /** Undefined: not remembered. The array is not to be changed. */
  get(stretch: string): Uint32Array | undefined {
    if (stretch.length < STRETCH_CHARS_MIN) return undefined
    const known = this.#young.get(stretch)
    if (known !== undefined) return known
    const old = this.#old.get(stretch)
    // Its text is copied once more: the map does not give back the key that it has.
    if (old !== undefined) this.#add(detached(stretch), old)
    return old
  }

  /** Remembers what the ids from `start` on were made of, if it is long; it is well-formed, as all text that a tokenizer gets. */
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

/** Reused while it is small, so that no memory is thrown away with each stretch. */
const bytes = new Uint8Array(64 * 1024)

/** The same text in memory of its own: a slice would keep the whole conversation around it. */
function detached(text: string): string {
  const { read, written } = encoder.encodeInto(text, bytes)
  return decoder.decode(read === text.length ? bytes.subarray(0, written) : encoder.encode(text))
}
