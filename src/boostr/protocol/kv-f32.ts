/**
 * The f32 layout in which the original exports a KV cache, encoded and decoded byte for byte.
 *
 * u32 layers | u32 seq_len, then per layer: u32 batch | u32 kv_heads | u32 head_dim | K f32 … | V f32 …
 * with batch · heads · seq_len · head_dim numbers each, row-major [B, H, S, D]
 *
 * The layout has neither magic nor checksum, so every size is compared with the available bytes before any memory is
 * allocated. Bytes after the last layer are ignored, as in the original.
 */
import { assert } from '../../base/index.ts'
import { PayloadReader } from '../../wire/index.ts'
import { protocolError } from '../../wire/index.ts'

export interface KvLayerF32 {
  readonly batch: number
  readonly kvHeads: number
  readonly headDim: number
  readonly keys: Float32Array
  readonly values: Float32Array
}

export interface KvCacheF32 {
  readonly seqLen: number
  readonly layers: readonly KvLayerF32[]
}

const HEAD_BYTES = 8
const LAYER_HEAD_BYTES = 12

export function encodeKvF32({ seqLen, layers }: KvCacheF32): Uint8Array {
  let length = HEAD_BYTES
  for (const { batch, kvHeads, headDim, keys, values } of layers) {
    const count = batch * kvHeads * seqLen * headDim
    assert(keys.length === count && values.length === count, 'a layer is incomplete')
    length += LAYER_HEAD_BYTES + 8 * count
  }
  const bytes = new Uint8Array(length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, layers.length, true)
  view.setUint32(4, seqLen, true)
  let at = HEAD_BYTES
  for (const { batch, kvHeads, headDim, keys, values } of layers) {
    for (const dim of [batch, kvHeads, headDim]) {
      view.setUint32(at, dim, true)
      at += 4
    }
    for (const numbers of [keys, values]) {
      for (const number of numbers) {
        view.setFloat32(at, number, true)
        at += 4
      }
    }
  }
  return bytes
}

/** Throws `transport.protocol` for truncated or impossible input. */
export function decodeKvF32(bytes: Uint8Array): KvCacheF32 {
  const reader = new PayloadReader(bytes)
  const layerCount = reader.u32()
  const seqLen = reader.u32()
  if (layerCount > reader.remaining / LAYER_HEAD_BYTES) {
    throw protocolError('message.truncated', `${layerCount} layers do not fit the payload`)
  }
  const layers: KvLayerF32[] = []
  for (let layer = 0; layer < layerCount; layer++) layers.push(decodeLayer(reader, seqLen, layer))
  return { seqLen, layers }
}

function decodeLayer(reader: PayloadReader, seqLen: number, layer: number): KvLayerF32 {
  const batch = reader.u32()
  const kvHeads = reader.u32()
  const headDim = reader.u32()
  // A product of four u32 may not be a safe integer, but an inexact large number exceeds the rest all the same.
  const count = batch * kvHeads * seqLen * headDim
  if (count > reader.remaining / 8) {
    throw protocolError('message.truncated', `layer ${layer} is longer than the payload`, { layer })
  }
  return { batch, kvHeads, headDim, keys: floats(reader, count), values: floats(reader, count) }
}

function floats(reader: PayloadReader, count: number): Float32Array {
  const bytes = reader.bytes(count * 4)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Float32Array.from({ length: count }, (_, i) => view.getFloat32(i * 4, true))
}
