/**
 * Encodes a text: added tokens become their ids, and the stretches between them are encoded with a cache of earlier
 * stretches. At once, or in steps for a long text.
 */
import { wellFormed } from '../../base/index.ts'
import { AddedTokenFinder } from './added-token-finder.ts'
import { partsOf, StretchCache } from './pieces/stretch-cache.ts'
import type { EncodePart, IsCut } from './pieces/stretch-cache.ts'
import { TokenBuffer } from './pieces/token-buffer.ts'
import type { AddedToken, EncodeOptions } from './tokenizer.ts'

interface StretchEncoderOptions {
  readonly addedTokens: readonly AddedToken[]
  readonly bosTokenId: number | null
  /** The text that is encoded for a stretch; `isFirst`: nothing precedes the stretch. */
  readonly normalize: (stretch: string, isFirst: boolean) => string
  readonly encodePart: EncodePart
  /** Null: it is not known where a text is always cut. */
  readonly isCut: IsCut | null
}

/** A step ends after at least this many characters. */
const STEP_CHARS_MIN = 8192
/** A part that is longer, such as base64 or a text without blanks, would take too long for one step. */
const STEP_CHARS_MAX = 16_384

export class StretchEncoder {
  readonly #options: StretchEncoderOptions
  readonly #finder: AddedTokenFinder
  readonly #cache = new StretchCache()
  readonly #buffer = new TokenBuffer()

  constructor(options: StretchEncoderOptions) {
    this.#options = options
    this.#finder = new AddedTokenFinder(options.addedTokens)
  }

  encode(text: string, options: EncodeOptions): Uint32Array {
    const { encodePart, isCut } = this.#options
    const ids = this.#buffer.clear()
    this.#visit(
      text,
      options,
      (stretch) => this.#cache.encode(stretch, ids, encodePart, isCut),
      (id) => ids.push(id),
    )
    return ids.finish()
  }

  /** Null: the text has a part that is too long for a step. */
  encodeInSteps(text: string, options: EncodeOptions): Iterator<undefined, Uint32Array> | null {
    const parts: (string | number)[] = []
    let longest = 0
    const addParts = (stretch: string): void => {
      for (const part of partsOf(stretch, this.#options.isCut)) {
        longest = Math.max(longest, part.length)
        parts.push(part)
      }
    }
    this.#visit(text, options, addParts, (id) => parts.push(id))
    return longest > STEP_CHARS_MAX ? null : this.#steps(parts)
  }

  *#steps(parts: readonly (string | number)[]): Generator<undefined, Uint32Array> {
    // Nothing is kept in the common buffer from one step to the next, because other texts are encoded between them.
    const encoded: (Uint32Array | number)[] = []
    let characters = 0
    for (const part of parts) {
      if (typeof part === 'number') {
        encoded.push(part)
        continue
      }
      if (characters >= STEP_CHARS_MIN) {
        yield
        characters = 0
      }
      encoded.push(this.#cache.idsOf(part, this.#buffer, this.#options.encodePart))
      characters += part.length
    }
    return joined(encoded)
  }

  #visit(
    text: string,
    options: EncodeOptions,
    onStretch: (stretch: string) => void,
    onId: (id: number) => void,
  ): void {
    const { bosTokenId, normalize } = this.#options
    if (options.addBos === true && bosTokenId !== null) onId(bosTokenId)
    this.#finder.visit(wellFormed(text), options, {
      onText: (stretch, isFirst) => onStretch(normalize(stretch, isFirst)),
      onToken: ({ id }) => onId(id),
    })
  }
}

function joined(parts: readonly (Uint32Array | number)[]): Uint32Array {
  const lengthOf = (part: Uint32Array | number): number =>
    typeof part === 'number' ? 1 : part.length
  const ids = new Uint32Array(parts.reduce<number>((sum, part) => sum + lengthOf(part), 0))
  let at = 0
  for (const part of parts) {
    if (typeof part === 'number') ids[at] = part
    else ids.set(part, at)
    at += lengthOf(part)
  }
  return ids
}
