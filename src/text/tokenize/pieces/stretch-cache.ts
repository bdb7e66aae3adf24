/**
 * Bounded memory of what long stretches of text became: a client sends a conversation again with every turn, and what lies
 * between two control tokens (a message, a document) is the same as before, or longer at its end where a prompt is written
 * without control tokens. Two generations, as of words.
 */
import type { TokenBuffer } from './token-buffer.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** A shorter stretch is tokenised about as fast as it is found. */
const STRETCH_CHARS_MIN = 1024
/** Of one generation: with the ids of its tokens 3 to 6 MB. */
const GENERATION_CHARS_MAX = 1_500_000

/** A part that is remembered is at least so long. */
const PART_CHARS_MIN = 8192

/** Whether the text is always cut at `at`, whatever is before the unit before it and behind the unit after it. */
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
   * Appends the ids of a text: what is remembered of it, and what `encode` appends for the rest. With `isCut` it is
   * remembered in parts, so that a text that goes on where another ended has all but that one's last part.
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
