import { describe, expect, it } from 'vitest'

import { BatonError } from '../../base/index.ts'
import { decodeKvF32, encodeKvF32 } from './kv-f32.ts'
import type { KvLayerF32 } from './kv-f32.ts'
import { unwrapKv, wrapKv } from './kv-envelope.ts'

function layer(batch: number, kvHeads: number, seqLen: number, headDim: number): KvLayerF32 {
  const length = batch * kvHeads * seqLen * headDim
  const keys = Float32Array.from({ length }, (_, i) => i * 0.5)
  return { batch, kvHeads, headDim, keys, values: keys.map((key) => -key) }
}

function head(...numbers: number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(numbers).buffer)
}

describe('KV in f32', () => {
  it('empty, one layer, unequal layers - survive encoding and decoding', () => {
    for (const cache of [
      { seqLen: 0, layers: [] },
      { seqLen: 0, layers: [layer(1, 2, 0, 3), layer(1, 2, 0, 3)] },
      { seqLen: 3, layers: [layer(1, 2, 3, 4)] },
      { seqLen: 5, layers: [layer(1, 2, 5, 4), layer(2, 1, 5, 8)] },
    ]) {
      expect(decodeKvF32(encodeKvF32(cache))).toEqual(cache)
    }
  })

  it('size - 8 + L·(12 + 8·B·H·S·D), and the layout of the first bytes', () => {
    const bytes = encodeKvF32({ seqLen: 3, layers: [layer(1, 2, 3, 4), layer(1, 2, 3, 4)] })
    expect(bytes.length).toBe(8 + 2 * (12 + 8 * 24))
    expect(Buffer.from(bytes.subarray(0, 28)).toString('hex')).toBe(
      '0200000003000000' + '010000000200000004000000' + '00000000' + '0000003f',
    )
  })

  it('truncated at every byte - is refused', () => {
    const bytes = encodeKvF32({ seqLen: 2, layers: [layer(1, 1, 2, 2), layer(1, 1, 2, 2)] })
    for (let end = 0; end < bytes.length; end++) {
      expect(() => decodeKvF32(bytes.subarray(0, end))).toThrow(BatonError)
    }
    expect(decodeKvF32(Buffer.concat([bytes, Buffer.of(1, 2)])).seqLen).toBe(2)
  })

  it('hostile sizes - are refused before memory is allocated', () => {
    const huge = 0xffffffff
    for (const bytes of [
      head(huge, 1),
      head(1, huge, huge, huge, huge),
      head(1, 1, 65_536, 65_536, 1),
      head(huge, 0, 0, 0, 0),
    ]) {
      expect(() => decodeKvF32(bytes)).toThrow(BatonError)
    }
  })

  it('envelope - comes before the bytes and its first number is the start position', () => {
    const envelope = { startPosition: 9, routerRank: 2, requestId: 2n ** 63n, lastToken: -5n }
    const payload = wrapKv(envelope, Uint8Array.of(7, 8))
    expect(new DataView(payload.buffer).getUint32(0, true)).toBe(9)
    const { envelope: back, startPosition, kv } = unwrapKv(payload)
    expect([back, startPosition, [...kv]]).toEqual([envelope, 9, [7, 8]])
    const bare = encodeKvF32({ seqLen: 3, layers: [layer(1, 2, 3, 4)] })
    expect(unwrapKv(bare)).toMatchObject({ envelope: null, startPosition: 1 })
    expect(unwrapKv(Uint8Array.of(1)).startPosition).toBe(0)
  })
})
