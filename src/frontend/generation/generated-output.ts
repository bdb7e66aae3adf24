/**
 * What a request has generated so far, over all attempts: what the next attempt's prompt ends with.
 *
 * An engine that answers text has no ids to give; its text is tokenised when the ids are asked for, so the next attempt
 * goes on behind the same text, if not behind the same split of it.
 */
import type { Chunk } from '../../request/index.ts'

type EncodeText = (text: string) => ArrayLike<number>

export class GeneratedOutput {
  readonly #encode: EncodeText | undefined
  readonly #tokens: number[] = []
  /** Text behind `#tokens` that is not tokenised yet. */
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
    this.#tokens.push(tokenId)
  }

  take(chunk: Chunk): void {
    for (const tokenId of chunk.tokenIds) this.push(tokenId)
    if (chunk.text !== undefined) this.#text += chunk.text
  }

  /** All of it as ids. */
  tokens(): readonly number[] {
    if (this.#text !== '') this.#tokenise()
    return this.#tokens
  }

  #tokenise(): void {
    if (this.#encode === undefined) return
    for (const tokenId of Array.from(this.#encode(this.#text))) this.#tokens.push(tokenId)
    this.#text = ''
  }
}
