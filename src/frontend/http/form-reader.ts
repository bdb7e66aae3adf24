/**
 * Parses `multipart/form-data` incrementally. The result does not depend on how the input is cut, and at most
 * the head of a part or a possible start of a boundary is buffered.
 */
import { BatonError, joinedBytes } from '../../base/index.ts'
import { asciiOf } from './json-members.ts'
import { endOfHead, HEAD_BYTES_MAX, headOfPart, indexOfLine, PARTS_MAX } from './form-parts.ts'
import type { PartHead } from './form-parts.ts'

/** Called in the order of the form. */
interface FormListener {
  onPart(head: PartHead): void
  /** Data of the current part. */
  onData(bytes: Uint8Array): void
}

const EMPTY: Uint8Array = new Uint8Array(0)
const DASH = 0x2d
const LF = 10
const CR = 13

export class FormReader {
  readonly #line: Uint8Array
  readonly #listener: FormListener
  #state: 'before' | 'boundary' | 'head' | 'data' | 'done' = 'before'
  #pending: Uint8Array = EMPTY
  /** True when the buffered bytes are at the start of a line. */
  #isLineStart = true
  #parts = 0

  constructor(boundary: string, listener: FormListener) {
    this.#line = new TextEncoder().encode(`--${boundary}`)
    this.#listener = listener
  }

  /** True when the final boundary was read. */
  get isWhole(): boolean {
    return this.#state === 'done'
  }

  /** Throws `request.invalid_argument` for a part whose head is too long. */
  push(piece: Uint8Array): void {
    this.#pending = this.#pending.length === 0 ? piece : joinedBytes([this.#pending, piece])
    while (this.#step()) {
      // Every step consumes some input.
    }
  }

  #step(): boolean {
    switch (this.#state) {
      case 'before':
      case 'data':
        return this.#untilBoundary()
      case 'boundary':
        return this.#afterBoundary()
      case 'head':
        return this.#head()
      case 'done':
        this.#pending = EMPTY
        return false
    }
  }

  #untilBoundary(): boolean {
    const at = indexOfLine(this.#pending, this.#line, 0, this.#isLineStart)
    if (at >= 0) {
      this.#data(this.#pending.subarray(0, withoutLineEnd(this.#pending, at)))
      this.#take(at + this.#line.length)
      this.#state = 'boundary'
      return true
    }
    // The end of the buffer may be the start of a boundary and the line break before it.
    const kept = Math.min(this.#pending.length, this.#line.length + 2)
    const taken = this.#pending.length - kept
    if (taken > 0) {
      this.#data(this.#pending.subarray(0, taken))
      this.#isLineStart = this.#pending[taken - 1] === LF
      this.#take(taken)
    }
    return false
  }

  #data(bytes: Uint8Array): void {
    if (this.#state === 'data' && bytes.length > 0) this.#listener.onData(bytes)
  }

  #afterBoundary(): boolean {
    if (this.#pending.length < 2) return false
    this.#parts += 1
    const isLast = this.#pending[0] === DASH && this.#pending[1] === DASH
    this.#state = isLast || this.#parts > PARTS_MAX ? 'done' : 'head'
    return true
  }

  #head(): boolean {
    const end = endOfHead(this.#pending, 0, Math.min(this.#pending.length, HEAD_BYTES_MAX))
    if (end !== null && end <= this.#pending.length) {
      this.#listener.onPart(headOfPart(asciiOf(this.#pending, 0, end)))
      this.#take(end)
      this.#isLineStart = true
      this.#state = 'data'
      return true
    }
    if (this.#pending.length > HEAD_BYTES_MAX) {
      const text = `the head of a part of the form is longer than ${HEAD_BYTES_MAX} bytes`
      throw new BatonError('request.invalid_argument', text)
    }
    return false
  }

  #take(bytes: number): void {
    this.#pending = this.#pending.subarray(bytes)
  }
}

/** The line break before a boundary belongs to the boundary. */
function withoutLineEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at - 1] !== LF) return at
  return bytes[at - 2] === CR ? at - 2 : at - 1
}
