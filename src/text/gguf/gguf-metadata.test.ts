import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { writeGguf } from '../../../test/gguf/gguf-writer.ts'
import { BatonError, randomInt, seededRandom } from '../../base/index.ts'
import { readGgufMetadata, readGgufMetadataBytes } from './gguf-metadata.ts'
import type { GgufMetadata } from './gguf-metadata.ts'

const SHIPPED = new URL('../../../models/storyteller/storyteller-q8_0.gguf', import.meta.url)

const SMALL = writeGguf({
  'general.architecture': { type: 'string', value: 'llama' },
  'general.name': { type: 'string', value: 'Grüße 你好' },
  'llama.context_length': { type: 'u32', value: 4096 },
  'llama.block_count': { type: 'u64', value: 4 },
  'llama.attention.head_count': { type: 'i32s', value: [6, 8, 7] },
  'llama.rope.freq_base': { type: 'f32', value: 0.5 },
  'tokenizer.ggml.tokens': { type: 'strings', value: ['a', 'Ġb', '<|end|>', '🎉'] },
  'tokenizer.ggml.scores': { type: 'f32s', value: [1, -0.5, 0, 2] },
  'tokenizer.ggml.add_bos_token': { type: 'bool', value: true },
})

function read(bytes: Uint8Array, fileBytes?: number): GgufMetadata {
  const result = readGgufMetadata(bytes, fileBytes)
  if (result.kind !== 'metadata') throw new Error(`needs ${result.bytesNeeded} bytes`)
  return result.metadata
}

describe('readGgufMetadata', () => {
  it('a small header - every kind of value', () => {
    const metadata = read(SMALL)
    expect(metadata).toMatchObject({
      version: 3,
      tensorCount: 0,
      architecture: 'llama',
      name: 'Grüße 你好',
      contextLength: 4096,
      blockCount: 4,
      headCount: 8,
      headCountKv: 8,
      vocabSize: 4,
      chatTemplate: null,
    })
    expect(metadata.values.get('tokenizer.ggml.tokens')).toEqual(['a', 'Ġb', '<|end|>', '🎉'])
    expect(metadata.values.get('tokenizer.ggml.scores')).toEqual(new Float32Array([1, -0.5, 0, 2]))
    expect(metadata.values.get('tokenizer.ggml.add_bos_token')).toBe(true)
    expect(metadata.values.get('llama.rope.freq_base')).toBe(0.5)
  })

  it('the shipped model - its shape is read', () => {
    const bytes = new Uint8Array(readFileSync(SHIPPED))
    expect(read(bytes, bytes.length)).toMatchObject({
      architecture: 'llama',
      name: 'Storyteller',
      contextLength: 4096,
      blockCount: 4,
      headCount: 6,
      headCountKv: 3,
      embeddingLength: 192,
      vocabSize: 2048,
    })
  })

  it('the beginning of a file - reports how many bytes are needed, and progresses with them', () => {
    const bytes = new Uint8Array(readFileSync(SHIPPED))
    let length = 0
    for (let reads = 0; ; reads++) {
      const result = readGgufMetadata(bytes.subarray(0, length), bytes.length)
      if (result.kind === 'metadata') break
      expect(result.bytesNeeded).toBeGreaterThan(length)
      expect(result.bytesNeeded).toBeLessThanOrEqual(bytes.length)
      length = Math.max(result.bytesNeeded, length * 2)
      expect(reads).toBeLessThan(60)
    }
  })

  it('truncated at every byte - an error that says what to do, and no other error', () => {
    for (let length = 0; length < SMALL.length; length++) {
      expect(() => readGgufMetadata(SMALL.subarray(0, length), length)).toThrow(
        expect.objectContaining({
          code: 'model.load_failed',
          message: expect.stringMatching(/download it again/),
        }),
      )
      expect(readGgufMetadata(SMALL.subarray(0, length)).kind).toBe('more')
    }
  })

  it('readGgufMetadataBytes - finds the length without decoding values, with the same checks', () => {
    for (const bytes of [SMALL, new Uint8Array(readFileSync(SHIPPED))]) {
      const found = readGgufMetadataBytes(bytes, bytes.length)
      if (found.kind !== 'length') throw new Error(`needs ${found.bytesNeeded} bytes`)
      const { metadataBytes } = found
      expect(read(bytes.subarray(0, metadataBytes), bytes.length).architecture).toBe('llama')
      for (const shorter of [metadataBytes - 1, metadataBytes >> 1, 30]) {
        const cut = bytes.subarray(0, shorter)
        expect(readGgufMetadataBytes(cut, bytes.length).kind).toBe('more')
        expect(readGgufMetadata(cut, bytes.length).kind).toBe('more')
        expect(() => readGgufMetadataBytes(cut, shorter)).toThrow(BatonError)
      }
    }
  })

  it('random damage (seed 7) - gives metadata, a request for more bytes, or a BatonError', () => {
    const random = seededRandom(7)
    for (let run = 0; run < 5000; run++) {
      const bytes = SMALL.slice()
      for (let i = 0; i <= randomInt(random, 4); i++) {
        bytes[randomInt(random, bytes.length)] = randomInt(random, 256)
      }
      expectCalm(bytes)
    }
  })

  it('random bytes after the magic - the same', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (tail) => {
        expectCalm(new Uint8Array([...SMALL.subarray(0, 8), ...tail]))
      }),
    )
  })

  it('a list longer than the file - is refused before anything is allocated', () => {
    const bytes = SMALL.slice()
    const at =
      Buffer.from(bytes).indexOf('tokenizer.ggml.tokens') + 'tokenizer.ggml.tokens'.length + 8
    new DataView(bytes.buffer).setBigUint64(at, 2n ** 40n, true)
    expect(() => readGgufMetadata(bytes, bytes.length)).toThrow(/a length of 1099511627776/)
    new DataView(bytes.buffer).setBigUint64(at, 10n ** 8n, true)
    expect(() => readGgufMetadata(bytes)).toThrow(/extends to byte/)
  })

  it.each([
    [new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]), /does not begin with "GGUF"/],
    [writeGguf({}, { version: 1 }), /version is 1/],
    [writeGguf({}, { version: 0x03000000 }), /big-endian/],
    [writeGguf({}), /general.architecture is missing/],
  ])('other files %# - the reason in the message', (bytes, reason) => {
    expect(() => readGgufMetadata(bytes, bytes.length)).toThrow(reason)
  })
})

function expectCalm(bytes: Uint8Array): void {
  try {
    const result = readGgufMetadata(bytes, bytes.length)
    expect(['metadata', 'more']).toContain(result.kind)
  } catch (thrown) {
    if (!(thrown instanceof BatonError)) throw thrown
    expect(thrown.code).toBe('model.load_failed')
  }
}
