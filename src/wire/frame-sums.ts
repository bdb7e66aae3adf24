/**
 * Checksums under the frames of a connection. TCP's own checksum is computed anew by every proxy, tunnel and sidecar, so
 * what one of them damages would otherwise be taken for tokens.
 *
 *   [12][SUM][bytes u32][~bytes u32][sum u32][bytes …]     a record: a head in the form of a frame, and what follows it
 *
 * The number of bytes is in the head twice, because a receiver with a number that is too large would wait.
 *
 * The sum is combined with that of the sender's HELLO, so that a damaged HELLO is noticed, too.
 *
 * Records know nothing about the frames inside: a frame may be in several, and a record may have many. The receiver passes
 * bytes on when their record was compared. Both directions begin right after AUTH, if both sides have the capability.
 */
import { grownBytes } from '../base/index.ts'
import { FrameWriter } from './frame-writer.ts'
import { protocolError } from './protocol-error.ts'
import { TAG } from './tag.ts'
import { readU32 } from './u32.ts'

export const FRAME_SUMS = 'frame-sums'

const HEAD_BYTES = 20
/** Of the head as a frame: its payload, and the places of its words. */
const HEAD_PAYLOAD = 12
const BYTES = 8
const NOT_BYTES = 12
const SUM = 16
/** A receiver collects at most so much before it can compare. */
export const RECORD_BYTES_MAX = 1024 * 1024
const NO_BYTES = new Uint8Array(0)

/** Every step can be inverted, so damage within one word is always detected. */
export function frameSum(bytes: Uint8Array, start: number, end: number): number {
  let sum = (end - start) ^ 0x9e3779b9
  let at = start
  for (; at + 4 <= end; at += 4) {
    const word =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)
    sum = Math.imul(sum ^ word, 0x85ebca6b)
    sum ^= sum >>> 13
  }
  for (; at < end; at++) {
    sum = Math.imul(sum ^ (bytes[at] as number), 0xc2b2ae35)
    sum ^= sum >>> 15
  }
  return sum >>> 0
}

/** Divides what is sent into records. */
export class SummedOutput {
  /** The records, to be sent in the place of what was sealed. */
  readonly records = new FrameWriter()
  readonly #helloSum: number

  /** `helloSum`: of this side's HELLO. */
  constructor(helloSum: number) {
    this.#helloSum = helloSum
  }

  /** Takes the finished frames of a writer. */
  seal(writer: FrameWriter): void {
    const long = writer.takeLong()
    const bytes = writer.take()
    if (long !== null) for (const part of long) this.sealBytes(part)
    if (bytes !== undefined) this.sealBytes(bytes)
  }

  /** Long data is not copied and must not change any more. */
  sealBytes(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += RECORD_BYTES_MAX) {
      const end = Math.min(bytes.length, at + RECORD_BYTES_MAX)
      const count = end - at
      const sum = frameSum(bytes, at, end) ^ this.#helloSum
      this.records.begin(TAG.SUM).u32(count).u32(~count).u32(sum).end()
      this.records.follow(count === bytes.length ? bytes : bytes.subarray(at, end))
    }
  }
}

/** Compares what is received. */
export class SummedInput {
  readonly #head = new Uint8Array(HEAD_BYTES)
  #headFill = 0
  #gathered: Uint8Array = NO_BYTES
  #fill = 0
  /** After `read`: the record that ended there is `record[recordStart, recordEnd)`; valid until the next call. */
  record: Uint8Array | null = null
  recordStart = 0
  recordEnd = 0
  readonly #helloSum: number

  /** `helloSum`: of the HELLO that was received. */
  constructor(helloSum: number) {
    this.#helloSum = helloSum
  }

  /** Memory held for an incomplete record, in bytes. */
  get gatheredBytes(): number {
    return this.#gathered.length
  }

  /** True between records. */
  get isAtBoundary(): boolean {
    return this.#headFill === 0
  }

  /**
   * Reads from `piece[at]` on, at most to the end of a record; returns where it ended. The record is then whole if there is
   * a `record`. Throws `transport.protocol` for damaged bytes.
   */
  read(piece: Uint8Array, at: number): number {
    this.record = null
    if (this.#headFill < HEAD_BYTES) {
      const taken = Math.min(HEAD_BYTES - this.#headFill, piece.length - at)
      for (let i = 0; i < taken; i++) this.#head[this.#headFill + i] = piece[at + i] as number
      this.#headFill += taken
      if (this.#headFill === HEAD_BYTES) checkHead(this.#head)
      return at + taken
    }
    const bytes = readU32(this.#head, BYTES)
    const left = bytes - this.#fill
    const isWhole = piece.length - at >= left
    const end = isWhole ? at + left : piece.length
    if (!isWhole || this.#fill > 0) this.#gather(piece, at, end, bytes)
    if (!isWhole) return end
    this.record = piece
    this.recordStart = at
    if (this.#fill > 0) {
      this.record = this.#gathered
      this.recordStart = 0
      this.#gathered = NO_BYTES
      this.#fill = 0
    }
    this.recordEnd = this.recordStart + bytes
    this.#headFill = 0
    const sum = frameSum(this.record, this.recordStart, this.recordEnd) ^ this.#helloSum
    if (sum !== (readU32(this.#head, SUM) | 0)) throw damaged()
    return end
  }

  #gather(piece: Uint8Array, at: number, end: number, bytes: number): void {
    const need = this.#fill + end - at
    this.#gathered = grownBytes(this.#gathered, need, { least: 0, most: bytes })
    this.#gathered.set(piece.subarray(at, end), this.#fill)
    this.#fill = need
  }
}

function checkHead(head: Uint8Array): void {
  const bytes = readU32(head, BYTES)
  const isHead = readU32(head, 0) === HEAD_PAYLOAD && readU32(head, 4) === TAG.SUM
  const isSame = (bytes ^ readU32(head, NOT_BYTES)) === -1
  if (!isHead || !isSame || bytes === 0 || bytes > RECORD_BYTES_MAX) throw damaged()
}

function damaged(): Error {
  const text =
    'the data of the peer is damaged: its checksum is wrong. A proxy between the processes changes it'
  return protocolError('frame.damaged', text)
}
