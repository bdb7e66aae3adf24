import { describe, expect, it } from 'vitest'

import { BatonError, randomInt, seededRandom } from '../base/index.ts'
import { FrameDecoder } from './frame-decoder.ts'
import { SKIPPED_BYTES_MAX, batonLimits } from './frame-limits.ts'
import { FrameWriter } from './frame-writer.ts'
import { SKIPPABLE, TAG } from './tag.ts'

interface Seen {
  readonly frames: string[]
  readonly decoder: FrameDecoder
}

function collect(limits = batonLimits(), streamedTag = -1): Seen {
  const frames: string[] = []
  let parts = ''
  const decoder = new FrameDecoder(
    limits,
    {
      onFrame: (tag, bytes, start, end) => {
        frames.push(`${tag}:${Buffer.from(bytes.subarray(start, end)).toString('hex')}`)
      },
      onPart: (tag, length, offset, bytes, start, end) => {
        parts =
          (offset === 0 ? '' : parts) + Buffer.from(bytes.subarray(start, end)).toString('hex')
        if (parts.length / 2 === length) frames.push(`${tag}:${parts}`)
      },
    },
    streamedTag,
  )
  return { frames, decoder }
}

function sample(): Uint8Array {
  const writer = new FrameWriter(32)
  writer.begin(TAG.PING).end()
  writer.begin(TAG.TOKENS).u32(1).u32(2).u32(3).u32(0xffffffff).end()
  writer
    .begin((200 | SKIPPABLE) >>> 0)
    .bytes(new Uint8Array(50))
    .end()
  writer
    .begin(TAG.KV_CHUNK)
    .bytes(Uint8Array.from({ length: 40 }, (_, i) => i))
    .end()
  writer
    .begin(TAG.CANCEL)
    .u64(2 ** 40)
    .u8(1)
    .end()
  return writer.take() ?? new Uint8Array(0)
}

const SAMPLE = sample()

function whole(streamedTag = -1): string[] {
  const { frames, decoder } = collect(batonLimits(), streamedTag)
  decoder.push(SAMPLE)
  return frames
}

function faultOf(run: () => void): unknown {
  try {
    run()
    return 'none'
  } catch (error) {
    return error instanceof BatonError ? error.data['reason'] : error
  }
}

describe('frames', () => {
  it('decoder - one piece gives all frames, an unknown skippable one is ignored', () => {
    expect(whole().map((frame) => frame.split(':')[0])).toEqual(['70', '43', '52', '47'])
  })

  it('decoder - cut at every byte gives the same frames', () => {
    for (const streamedTag of [-1, TAG.KV_CHUNK]) {
      for (let cut = 0; cut <= SAMPLE.length; cut++) {
        const { frames, decoder } = collect(batonLimits(), streamedTag)
        decoder.push(SAMPLE.subarray(0, cut))
        decoder.push(SAMPLE.subarray(cut))
        expect(frames).toEqual(whole())
        expect(decoder.isAtBoundary).toBe(true)
      }
    }
  })

  it('decoder - one byte at a time gives the same frames', () => {
    const { frames, decoder } = collect()
    for (const byte of SAMPLE) decoder.push(Uint8Array.of(byte))
    expect(frames).toEqual(whole())
  })

  it('decoder - an incomplete frame is not delivered', () => {
    const { frames, decoder } = collect()
    decoder.push(SAMPLE.subarray(0, SAMPLE.length - 1))
    expect(frames).toEqual(whole().slice(0, -1))
    expect(decoder.isAtBoundary).toBe(false)
  })

  it('decoder - at the limit a frame passes, beyond it is refused before memory is allocated', () => {
    const limits = batonLimits([[TAG.CHUNK, 100]])
    const at = collect(limits)
    for (const size of [99, 100]) {
      at.decoder.push(new FrameWriter().begin(TAG.CHUNK).bytes(new Uint8Array(size)).end().take()!)
    }
    expect(at.frames.length).toBe(2)
    const over = collect(limits)
    const head = new FrameWriter().begin(TAG.CHUNK).end(101).take()!
    expect(faultOf(() => over.decoder.push(head))).toBe('frame.too_long')
    expect(over.decoder.gatheredBytes).toBe(0)
    over.decoder.push(SAMPLE)
    expect(over.frames).toEqual([])
  })

  it('decoder - an unknown skippable frame is skipped up to its limit, a longer one ends the decoder', () => {
    const tag = (200 | SKIPPABLE) >>> 0
    const at = collect()
    at.decoder.push(
      new FrameWriter().begin(tag).bytes(new Uint8Array(SKIPPED_BYTES_MAX)).end().take()!,
    )
    at.decoder.push(SAMPLE)
    expect(at.frames).toEqual(whole())
    for (const length of [SKIPPED_BYTES_MAX + 1, 0xffffffff]) {
      const over = collect()
      const head = new FrameWriter().begin(tag).end(length).take()!
      expect(faultOf(() => over.decoder.push(head))).toBe('frame.too_long')
    }
  })

  it('decoder - a long length alone allocates no memory', () => {
    const { decoder } = collect()
    decoder.push(
      new FrameWriter()
        .begin(TAG.REQUEST)
        .u32(1)
        .end(60 * 1024 * 1024)
        .take()!,
    )
    expect(decoder.gatheredBytes).toBeLessThanOrEqual(64 * 1024)
  })

  it('decoder - an unknown tag that is not skippable ends the decoder', () => {
    const { decoder } = collect()
    const frame = new FrameWriter().begin(200).end().take()!
    expect(faultOf(() => decoder.push(frame))).toBe('frame.unknown_tag')
    expect(decoder.isEnded).toBe(true)
  })

  it('decoder - stop within a frame ignores the rest of the piece', () => {
    const frames: number[] = []
    const decoder: FrameDecoder = new FrameDecoder(batonLimits(), {
      onFrame: (tag) => {
        frames.push(tag)
        decoder.stop()
      },
    })
    decoder.push(SAMPLE)
    expect(frames).toEqual([TAG.PING])
  })

  it('writer - taken buffers stay unchanged while more is written', () => {
    const writer = new FrameWriter(64)
    const taken: { bytes: Uint8Array; copy: string }[] = []
    for (let i = 0; i < 200; i++) {
      writer.begin(TAG.TOKENS)
      for (let pair = 0; pair < i % 23; pair++) writer.u32(i).u32(pair)
      if (i % 5 === 0) {
        const bytes = writer.take()
        if (bytes) taken.push({ bytes, copy: Buffer.from(bytes).toString('hex') })
      }
      writer.end()
    }
    for (const { bytes, copy } of taken) expect(Buffer.from(bytes).toString('hex')).toBe(copy)
    const { frames, decoder } = collect()
    for (const { bytes } of taken) decoder.push(bytes)
    decoder.push(writer.take()!)
    expect(frames.length).toBe(200)
  })

  it('writer - a long payload after its frame is passed on uncopied, in order', () => {
    const writer = new FrameWriter(64)
    const long = Uint8Array.from({ length: 20_000 }, (_, i) => i % 251)
    const short = Uint8Array.of(1, 2, 3)
    for (const payload of [long, short, long]) {
      writer
        .begin(TAG.CHUNK)
        .u8(9)
        .end(payload.length + 2)
      writer.follow(payload).u8(7).u8(8)
    }
    const parts = writer.takeLong() ?? []
    expect(parts.filter((part) => part === long).length).toBe(2)
    const { frames, decoder } = collect()
    for (const part of parts) decoder.push(part)
    decoder.push(writer.take()!)
    const hex = [long, short, long].map((payload) => Buffer.from(payload).toString('hex'))
    expect(frames).toEqual(hex.map((text) => `${TAG.CHUNK}:09${text}0708`))
    expect(writer.takeLong()).toBeNull()
    expect(writer.take()).toBeUndefined()
  })

  it('writer - a frame whose writer has thrown is not sent, the next one is', () => {
    for (const bytes of [4, 100]) {
      const writer = new FrameWriter(64)
      writer.begin(TAG.PING).f64(1).end()
      writer.begin(TAG.KV_EVENTS).bytes(new Uint8Array(bytes))
      expect(writer.take()?.length).toBe(16)
      expect(writer.take()).toBeUndefined()
      writer.begin(TAG.PING).f64(2).end()
      const taken = Buffer.from(writer.take() ?? [])
      expect([taken.length, taken.readUInt32LE(4), taken.readDoubleLE(8)]).toEqual([
        16,
        TAG.PING,
        2,
      ])
    }
  })

  it('decoder - random frames in random pieces are restored', () => {
    const seed = Number(process.env['BATON_FUZZ_SEED'] ?? Date.now() % 1e9)
    const random = seededRandom(seed)
    const tags = [TAG.REQUEST, TAG.TOKENS, TAG.CHUNK, TAG.KV_CHUNK]
    for (let round = 0; round < 200; round++) {
      const writer = new FrameWriter(1 + randomInt(random, 300))
      const sent: string[] = []
      for (let i = 0; i < 20; i++) {
        const tag = tags[randomInt(random, tags.length)] ?? 0
        const length = randomInt(random, i === 0 ? 60_000 : 80)
        const payload = Uint8Array.from({ length }, () => randomInt(random, 256))
        if (randomInt(random, 2) === 0) writer.begin(tag).bytes(payload).end()
        else writer.begin(tag).end(length).follow(payload)
        sent.push(`${tag}:${Buffer.from(payload).toString('hex')}`)
      }
      const bytes = writer.take()!
      const { frames, decoder } = collect(batonLimits(), TAG.KV_CHUNK)
      for (let at = 0; at < bytes.length;) {
        const size = 1 + randomInt(random, randomInt(random, 4) === 0 ? 20_000 : 60)
        decoder.push(bytes.subarray(at, at + size))
        at += size
      }
      // Empty streamed payloads have one empty part, which the collector above does not tell from the next.
      expect(
        frames.filter((f) => f.length > 3),
        `seed ${seed}`,
      ).toEqual(sent.filter((f) => f.length > 3))
    }
  })
})
