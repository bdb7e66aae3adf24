/**
 * What a request has generated so far, over all attempts: what the next attempt's prompt ends with.
 *
 * An engine that answers text has no ids to give; its text is tokenised when the ids are asked for, so the next attempt
 * goes on behind the same text, if not behind the same split of it.
 *
 * Ids are four bytes each and lie outside of V8's heap: of a long answer they are most of what its stream holds, and the
 * collector would copy them twice.
 */
import type { Chunk } from '../../request/index.ts'

type EncodeText = (text: string) => ArrayLike<number>

/** Room for so many ids at first; doubled when it is full. */
const FIRST_IDS = 32
const NO_IDS = new Uint32Array(0)

export class GeneratedOutput {
  readonly #encode: EncodeText | undefined
  #ids = NO_IDS
  #count = 0
  /** Text behind `#ids` that is not tokenised yet. */
  #text = ''

  constructor(encode?: EncodeText) {
    this.#encode = encode
  }

  /** There is text that cannot be tokenised here: the request cannot go on elsewhere. */
  get isLost(): boolean {
    return this.#text !== '' && this.#encode === undefined
  }

  push(tokenId: number): void {
    if (this.#text !== '') this.#tokenise()
    this.#add(tokenId)
  }

  take(chunk: Chunk): void {
    for (const tokenId of chunk.tokenIds) this.push(tokenId)
    if (chunk.text !== undefined) this.#text += chunk.text
  }

  /** All of it as ids, as it is now. */
  tokens(): Uint32Array {
    if (this.#text !== '') this.#tokenise()
    return this.#ids.subarray(0, this.#count)
  }

  #add(tokenId: number): void {
    if (this.#count === this.#ids.length) this.#grow()
    this.#ids[this.#count] = tokenId
    this.#count += 1
  }

  #grow(): void {
    const ids = new Uint32Array(Math.max(FIRST_IDS, this.#ids.length * 2))
    ids.set(this.#ids)
    this.#ids = ids
  }

  #tokenise(): void {
    if (this.#encode === undefined) return
    for (const tokenId of Array.from(this.#encode(this.#text))) this.#add(tokenId)
    this.#text = ''
  }
}
