/**
 * Joins characters that an engine's pieces of text have cut in two (JavaScript strings consist of UTF-16 units).
 *
 * On the wire half a character becomes U+FFFD. A half without its other half does so here, too, so that a client gets
 * the same text from a worker in its own process.
 */
import { wellFormed } from '../base/index.ts'
import type { Chunk } from '../request/index.ts'

const CUT = /[\ud800-\udbff]$/

export class TextHalves {
  /** The first half of the next piece's first character, or an empty text. */
  #first = ''

  /** The same chunk with whole characters only. */
  whole(chunk: Chunk): Chunk {
    const { text = '', finish } = chunk
    if (text === '' ? finish === undefined || this.#first === '' : this.#isWhole(text)) return chunk
    const all = this.#first + text
    const isCut = finish === undefined && CUT.test(all)
    this.#first = isCut ? all.slice(-1) : ''
    return { ...chunk, text: wellFormed(all.slice(0, isCut ? -1 : undefined)) }
  }

  #isWhole(text: string): boolean {
    return this.#first === '' && wellFormed(text) === text
  }
}
