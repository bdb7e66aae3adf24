/**
 * Bounded cache from long stretches of text to token ids. A client sends the conversation again with every turn, and
 * the text between two control tokens (a message, a document) is the same as before, or has grown at its end if the
 * prompt has no control tokens. Two generations, like the cache of words.
 *
 * The key is a sample of the text, and the whole text is compared, because a `Map` of texts would hash each of them
 * completely, twice if it is new.
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

/** Appends the ids of a part. */
export type EncodePart = (part: string, ids: TokenBuffer) => void

/** The parts of a text that are cached, so that a text that extends an earlier one finds all but its last part. */
export function partsOf(text: string, isCut: IsCut | null): readonly string[] {
  if (isCut === null || text.length <= PART_CHARS_MIN) return [text]
  const parts: string[] = []
  for (let from = 0; from < text.length;) {
    const to = partEnd(text, from, isCut)
    parts.push(to - from === text.length ? text : text.slice(from, to))
    from = to
  }
  return parts
}

function partEnd(text: string, from: number, isCut: IsCut): number {
  for (let at = from + PART_CHARS_MIN; at + 1 < text.length; at++) if (isCut(text, at)) return at
  return text.length
}

const SAMPLES = 32
/** Most texts with the same sample; the oldest one is dropped. */
const SAME_SAMPLE_MAX = 8

interface Known {
  readonly text: string
  readonly ids: Uint32Array
}

/** Texts of one generation by their samples. */
type Generation = Map<number, readonly Known[]>

export class StretchCache {
  #young: Generation = new Map()
  #youngChars = 0
  #old: Generation = new Map()

  /** Appends the ids of a text: cached ids, and what `encode` appends for the rest. */
  encode(text: string, ids: TokenBuffer, encode: EncodePart, isCut: IsCut | null = null): void {
    for (const part of partsOf(text, isCut)) {
      const known = this.get(part)
      if (known === undefined) {
        const start = ids.length
        encode(part, ids)
        this.keep(part, ids, start)
      } else ids.pushRange(known, 0, known.length)
    }
  }

  /** The ids of one part; `buffer` is used for encoding. The array must not be modified. */
  idsOf(part: string, buffer: TokenBuffer, encode: EncodePart): Uint32Array {
    const known = this.get(part)
    if (known !== undefined) return known
    encode(part, buffer.clear())
    return this.keep(part, buffer, 0) ?? buffer.finish()
  }

  /** Undefined: not cached. The array must not be modified. */
  get(stretch: string): Uint32Array | undefined {
    if (stretch.length < STRETCH_CHARS_MIN) return undefined
    const sample = sampleOf(stretch)
    const known = find(this.#young, sample, stretch)
    if (known !== undefined) return known.ids
    const old = find(this.#old, sample, stretch)
    if (old !== undefined) this.#add(sample, old)
    return old?.ids
  }

  /**
   * Caches the ids from `start` on for this stretch, if it is long, and returns them; null: it is not. The stretch must
   * be well-formed Unicode.
   */
  keep(stretch: string, ids: TokenBuffer, start: number): Uint32Array | null {
    const { length } = stretch
    if (length < STRETCH_CHARS_MIN || length > GENERATION_CHARS_MAX) return null
    const known: Known = { text: detached(stretch), ids: ids.since(start) }
    this.#add(sampleOf(stretch), known)
    return known.ids
  }

  #add(sample: number, known: Known): void {
    const { length } = known.text
    if (this.#youngChars + length > GENERATION_CHARS_MAX) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngChars = 0
    }
    const same = this.#young.get(sample) ?? []
    this.#young.set(sample, [known, ...same.slice(0, SAME_SAMPLE_MAX - 1)])
    this.#youngChars += length
  }
}

/** A hash of the length and of some characters. */
function sampleOf(text: string): number {
  const last = text.length - 1
  let hash = last
  for (let i = 0; i < SAMPLES; i++) {
    const at = Math.floor((last * i) / (SAMPLES - 1))
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  return hash ^ (hash >>> 15)
}

function find(generation: Generation, sample: number, text: string): Known | undefined {
  return generation.get(sample)?.find((known) => known.text === text)
}

/** A reused buffer, so that no memory is allocated per stretch. */
const bytes = new Uint8Array(64 * 1024)

/** A copy of the text: a slice would keep the whole conversation in memory. */
function detached(text: string): string {
  const { read, written } = encoder.encodeInto(text, bytes)
  return decoder.decode(read === text.length ? bytes.subarray(0, written) : encoder.encode(text))
}
