/**
 * Recovers ids that llama-server computed without reporting them: it streams nothing for a token that ends within a
 * character, and with the token that completes the character it reports the text of all of them, but only the last
 * id.
 *
 * Owns: the recovery from the text and the number of tokens. The tokenizer's own split of the text is nearly always
 * right; when its length or its last token differs, any split of the same bytes is used.
 */
import type { Tokenizer } from '../../text/index.ts'

export interface LostTokens {
  /** The ids before `lastId` in a text of `count` tokens more; null: unknown. */
  before(text: string, lastId: number, count: number): readonly number[] | null
}

const TOKEN_BYTES_MAX = 64
const STEPS_MAX = 10_000
const encoder = new TextEncoder()

export class TokensOfText implements LostTokens {
  readonly #tokenizer: Tokenizer
  #idsByBytes: ReadonlyMap<string, number> | null = null

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer
  }

  before(text: string, lastId: number, count: number): readonly number[] {
    const usual = [...this.#tokenizer.encode(text, { special: false })]
    if (usual.length === count + 1 && usual.at(-1) === lastId) return usual.slice(0, count)
    const bytes = Buffer.from(encoder.encode(text)).toString('latin1')
    const last = Buffer.from(this.#tokenizer.tokenBytes(lastId)).toString('latin1')
    const rest = bytes.endsWith(last) ? bytes.slice(0, bytes.length - last.length) : bytes
    return (
      divided(rest, count, this.#idsOfAll()) ??
      usual.slice(0, usual.at(-1) === lastId ? -1 : undefined)
    )
  }

  #idsOfAll(): ReadonlyMap<string, number> {
    if (this.#idsByBytes !== null) return this.#idsByBytes
    const ids = new Map<string, number>()
    for (let id = 0; id < this.#tokenizer.vocabSize; id++) {
      if (this.#tokenizer.isSpecial(id)) continue
      const bytes = Buffer.from(this.#tokenizer.tokenBytes(id)).toString('latin1')
      if (bytes !== '' && !ids.has(bytes)) ids.set(bytes, id)
    }
    this.#idsByBytes = ids
    return ids
  }
}

/** Exactly `count` tokens with these bytes, given as one character per byte; null: there are none. */
export function divided(
  bytes: string,
  count: number,
  ids: ReadonlyMap<string, number>,
): readonly number[] | null {
  let steps = 0
  const divide = (from: number, left: number): readonly number[] | null => {
    if (left === 0) return from === bytes.length ? [] : null
    steps += 1
    if (steps > STEPS_MAX) return null
    // Each remaining token needs at least one byte.
    const longest = Math.min(TOKEN_BYTES_MAX, bytes.length - from - (left - 1))
    for (let length = longest; length > 0; length--) {
      const id = ids.get(bytes.slice(from, from + length))
      const rest = id === undefined ? null : divide(from + length, left - 1)
      if (rest !== null) return [id as number, ...rest]
    }
    return null
  }
  return divide(0, count)
}
