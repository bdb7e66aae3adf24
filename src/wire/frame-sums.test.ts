import { describe, expect, it } from 'vitest'
import { BatonError } from '../base/index.ts'
import { FrameDecoder } from './frame-decoder.ts'
import { batonLimits } from './frame-limits.ts'
import { RECORD_BYTES_MAX, SummedInput, SummedOutput } from './frame-sums.ts'
import { FrameWriter } from './frame-writer.ts'
import { TAG } from './tag.ts'

const HEAD = 20
const HELLO_SUM = 0x89abcdef

function randomBytes(count: number, seed: number): Uint8Array {
  let state = seed
  return Uint8Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state >>> 24
  })
}

function sealedBy(output: SummedOutput, bytes: Uint8Array): readonly Uint8Array[] {
  output.sealBytes(bytes)
  const long = output.records.takeLong() ?? []
  const last = output.records.take()
  return last === undefined ? long : [...long, last]
}

const joined = (parts: readonly Uint8Array[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => [...part]))

/** What a decoder passes on, and the fault that ends it. */
function decoded(pieces: readonly Uint8Array[]) {
  const frames: string[] = []
  const decoder = new FrameDecoder(batonLimits(), {
    onFrame: (tag, bytes, start, end) =>
      frames.push(`${tag}:${Buffer.from(bytes.subarray(start, end)).toString('hex')}`),
  })
  decoder.expectSums(HELLO_SUM)
  try {
    for (const piece of pieces) decoder.push(piece)
  } catch (error) {
    return { frames, decoder, fault: BatonError.from(error).code }
  }
  return { frames, decoder, fault: null }
}

/** Some frames as they are sent: two records. */
function stream() {
  const output = new SummedOutput(HELLO_SUM)
  const writer = new FrameWriter()
  writer.begin(TAG.TOKENS).u32(7).u32(1234).end()
  writer.begin(TAG.CANCEL).u64(7).u8(1).end()
  const first = sealedBy(output, writer.take() as Uint8Array)
  writer.begin(TAG.TOKENS).u32(7).u32(99).u32(8).u32(4321).end()
  return joined([...first, ...sealedBy(output, writer.take() as Uint8Array)])
}

describe('frames in records with checksums', () => {
  it('however the bytes arrive - the same frames', () => {
    const bytes = stream()
    const { frames, fault } = decoded([bytes])
    expect([frames.length, fault]).toEqual([3, null])
    expect(decoded([...bytes].map((byte) => Uint8Array.of(byte))).frames).toEqual(frames)
    for (let cut = 1; cut < bytes.length; cut++) {
      const { frames: seen, decoder } = decoded([bytes.subarray(0, cut), bytes.subarray(cut)])
      expect(seen).toEqual(frames)
      expect([decoder.isAtBoundary, decoder.gatheredBytes]).toEqual([true, 0])
    }
  })

  it('any bit changed - no frame of its record or after it, and an error', () => {
    const bytes = stream()
    const whole = decoded([bytes]).frames
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      const damaged = bytes.slice()
      damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7))
      const { frames, fault } = decoded([damaged])
      expect(frames).toEqual(whole.slice(0, frames.length))
      expect([frames.length < whole.length, fault]).toEqual([true, 'transport.protocol'])
    }
  })

  it('bytes lost, repeated or inserted - never another frame', () => {
    const bytes = stream()
    const whole = decoded([bytes]).frames
    for (let at = 0; at < bytes.length; at++) {
      const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
      for (const changed of [
        [before, after.subarray(1)],
        [before, after.subarray(0, 3), after],
        [before, randomBytes(5, at + 1), after],
        [before],
      ]) {
        const { frames } = decoded([joined(changed)])
        expect(frames).toEqual(whole.slice(0, frames.length))
      }
    }
  })

  it('random bytes - an error, and little memory', () => {
    for (let seed = 1; seed < 500; seed++) {
      const { frames, fault } = decoded([randomBytes(40, seed)])
      expect([frames, fault]).toEqual([[], 'transport.protocol'])
    }
  })

  it.each([
    1,
    16 * 1024,
    16 * 1024 + 1,
    RECORD_BYTES_MAX,
    RECORD_BYTES_MAX + 1,
    3 * RECORD_BYTES_MAX - 5,
  ])('%i bytes - arrive unchanged in records of bounded length', (count) => {
    const bytes = randomBytes(count, count)
    const sealed = sealedBy(new SummedOutput(HELLO_SUM), bytes)
    const input = new SummedInput(HELLO_SUM)
    const received: Uint8Array[] = []
    for (const part of sealed) {
      for (let at = 0; at < part.length;) {
        at = input.read(part.subarray(0, Math.min(part.length, at + 100_000)), at)
        if (input.record === null) continue
        const record = input.record.slice(input.recordStart, input.recordEnd)
        expect(record.length).toBeLessThanOrEqual(RECORD_BYTES_MAX)
        received.push(record)
      }
    }
    expect(Buffer.concat(received).equals(Buffer.from(bytes))).toBe(true)
    expect([input.isAtBoundary, input.gatheredBytes]).toEqual([true, 0])
  })

  it.each([
    ['the limit', RECORD_BYTES_MAX, null],
    ['above', RECORD_BYTES_MAX + 1, 'transport.protocol'],
    ['none', 0, 'transport.protocol'],
  ])('a record that announces %s - is read or refused at its head', (_name, count, fault) => {
    const head = new Uint8Array(HEAD)
    const view = new DataView(head.buffer)
    view.setUint32(0, 12, true)
    view.setUint32(4, TAG.SUM, true)
    view.setUint32(8, count, true)
    view.setUint32(12, ~count, true)
    const seen = decoded([head, new Uint8Array(10)])
    expect(seen.fault).toBe(fault)
    expect(seen.decoder.gatheredBytes).toBeLessThan(100)
  })

  it('frames without a record - are refused', () => {
    const writer = new FrameWriter()
    writer.begin(TAG.TOKENS).u32(7).u32(1234).end()
    writer.begin(TAG.TOKENS).u32(7).u32(1234).end()
    const { frames, fault } = decoded([writer.take() as Uint8Array])
    expect([frames, fault]).toEqual([[], 'transport.protocol'])
  })
})
