/**
 * The output that a request has generated so far, over all attempts: the end of the next attempt's prompt.
 *
 * An engine that answers with text has no ids. Its text is tokenised when the ids are needed, so the next
 * attempt continues the same text, but perhaps with another split into tokens.
 *
 * Ids take four bytes each and lie outside of V8's heap. In a long answer they are most of a stream's memory,
 * and the garbage collector would copy them twice.
 */
import type { Chunk } from '../../request/index.ts'
import type { Tokenizer } from '../../text/index.ts'

/** Initial capacity in ids; doubled when it is full. */
const FIRST_IDS = 32
const NO_IDS = new Uint32Array(0)

export class GeneratedOutput {
  readonly #tokenizer: Pick<Tokenizer, 'encode'> | undefined
  #ids = NO_IDS
  #count = 0
  /** Text after `#ids` that is not tokenised yet. */
  #text = ''

  constructor(tokenizer?: Pick<Tokenizer, 'encode'>) {
    this.#tokenizer = tokenizer
  }

  /**
   * True when there is text that cannot be tokenised here, so the request cannot be continued on another
   * worker.
   */
  get isLost(): boolean {
    return this.#text !== '' && this.#tokenizer === undefined
  }

  push(tokenId: number): void {
    if (this.#text !== '') this.#tokenise()
    this.#add(tokenId)
  }

  take(chunk: Chunk): void {
    for (const tokenId of chunk.tokenIds) this.push(tokenId)
    if (chunk.text !== undefined) this.#text += chunk.text
  }

  /** All output so far as ids. */
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
    if (this.#tokenizer === undefined) return
    for (const tokenId of this.#tokenizer.encode(this.#text, { special: true })) this.#add(tokenId)
    this.#text = ''
  }
}
