/**
 * A GGUF file of any size with random weights and the tokenizer of the model that Baton ships: an engine that
 * computes as long as a real model, without a download. Its output is noise.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { seededRandom } from '../../src/base/index.ts'

export interface ModelSize {
  readonly layers: number
  readonly width: number
  readonly inner: number
  readonly heads: number
  readonly kvHeads: number
}

const HEAD = 64
const VOCABULARY = 2048
/** The range from which `baton bench` makes prompts too. */
const TEXT_TOKENS = [300, 1300] as const
const [F32, Q8] = [0, 8]
const BLOCK = 32
const BLOCK_BYTES = 34
const ALIGNMENT = 32
const UINT32 = 4
/** Bytes of GGUF's scalar types by their number; 8 is a string, 9 a list. */
const SCALAR_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

interface Tensor {
  readonly name: string
  readonly shape: readonly number[]
  readonly type: number
}

export function writeRandomModel(path: string, like: string, size: ModelSize): void {
  const tensors = tensorsOf(size)
  const file = openSync(path, 'w')
  try {
    let at = writeSync(file, headerOf(like, size, tensors))
    const noise = noiseBytes()
    for (const tensor of tensors) {
      at += writeSync(file, Buffer.alloc(padding(at)))
      let left = bytesOf(tensor)
      if (tensor.name === 'token_embd.weight') {
        at += writeSync(file, embeddings(noise, left / VOCABULARY))
        continue
      }
      while (left > 0) {
        const piece =
          tensor.type === F32 ? ones(left / 4) : noise.subarray(0, Math.min(left, noise.length))
        at += writeSync(file, piece)
        left -= piece.length
      }
    }
  } finally {
    closeSync(file)
  }
}

function tensorsOf({ layers, width, inner, heads, kvHeads }: ModelSize): Tensor[] {
  const weight = (name: string, ...shape: number[]): Tensor => ({
    name: `${name}.weight`,
    shape,
    type: shape.length === 1 ? F32 : Q8,
  })
  const all = [weight('token_embd', width, VOCABULARY), weight('output_norm', width)]
  for (let i = 0; i < layers; i++)
    all.push(
      weight(`blk.${i}.attn_q`, width, heads * HEAD),
      weight(`blk.${i}.attn_k`, width, kvHeads * HEAD),
      weight(`blk.${i}.attn_v`, width, kvHeads * HEAD),
      weight(`blk.${i}.attn_output`, heads * HEAD, width),
      weight(`blk.${i}.ffn_gate`, width, inner),
      weight(`blk.${i}.ffn_up`, width, inner),
      weight(`blk.${i}.ffn_down`, inner, width),
      weight(`blk.${i}.attn_norm`, width),
      weight(`blk.${i}.ffn_norm`, width),
    )
  return all
}

/** Magic, version, counts, the metadata of the other model with other sizes, and the position of each tensor. */
function headerOf(like: string, size: ModelSize, tensors: readonly Tensor[]): Buffer {
  const source = readFileSync(like)
  const pairs = Number(source.readBigUInt64LE(16))
  const sizes: Readonly<Record<string, number>> = {
    'llama.embedding_length': size.width,
    'llama.block_count': size.layers,
    'llama.feed_forward_length': size.inner,
    'llama.attention.head_count': size.heads,
    'llama.attention.head_count_kv': size.kvHeads,
    'llama.context_length': 8192,
  }
  const start = Buffer.from(source.subarray(0, 24))
  start.writeBigUInt64LE(BigInt(tensors.length), 8)
  const parts: Uint8Array[] = [start]
  let at = 24
  for (let i = 0; i < pairs; i++) {
    const from = at
    const nameBytes = Number(source.readBigUInt64LE(at))
    const name = source.toString('utf8', at + 8, at + 8 + nameBytes)
    const valueAt = at + 8 + nameBytes
    at = endOfValue(source, valueAt + 4, source.readUInt32LE(valueAt))
    const pair = Buffer.from(source.subarray(from, at))
    const other = sizes[name]
    if (other !== undefined) {
      if (source.readUInt32LE(valueAt) !== UINT32) throw new Error(`${like}: ${name} is no uint32`)
      pair.writeUInt32LE(other, valueAt + 4 - from)
    }
    parts.push(pair)
  }
  let offset = 0
  for (const tensor of tensors) {
    parts.push(describe(tensor, offset))
    offset += bytesOf(tensor)
    offset += padding(offset)
  }
  const header = Buffer.concat(parts)
  return Buffer.concat([header, Buffer.alloc(padding(header.length))])
}

function endOfValue(bytes: Buffer, at: number, type: number): number {
  if (type === 8) return at + 8 + Number(bytes.readBigUInt64LE(at))
  if (type !== 9) return at + SCALAR_BYTES[type]!
  const [inner, count] = [bytes.readUInt32LE(at), Number(bytes.readBigUInt64LE(at + 4))]
  let end = at + 12
  for (let i = 0; i < count; i++) end = endOfValue(bytes, end, inner)
  return end
}

function describe({ name, shape, type }: Tensor, offset: number): Buffer {
  const bytes = Buffer.alloc(8 + name.length + 4 + 8 * shape.length + 4 + 8)
  let at = bytes.writeBigUInt64LE(BigInt(name.length), 0)
  at += bytes.write(name, at)
  at = bytes.writeUInt32LE(shape.length, at)
  for (const length of shape) at = bytes.writeBigUInt64LE(BigInt(length), at)
  at = bytes.writeUInt32LE(type, at)
  bytes.writeBigUInt64LE(BigInt(offset), at)
  return bytes
}

function bytesOf({ shape, type }: Tensor): number {
  const values = shape.reduce((product, length) => product * length, 1)
  return type === F32 ? 4 * values : (values / BLOCK) * BLOCK_BYTES
}

function padding(at: number): number {
  return (ALIGNMENT - (at % ALIGNMENT)) % ALIGNMENT
}

/**
 * Only tokens of whole characters are ever chosen: after a byte or a control token no text could be shown, and the
 * first token would seem to come with the second.
 */
function embeddings(noise: Uint8Array, rowBytes: number): Uint8Array {
  const all = new Uint8Array(VOCABULARY * rowBytes)
  for (let token = TEXT_TOKENS[0]; token < TEXT_TOKENS[1]; token++) {
    const from = (token * rowBytes) % (noise.length - rowBytes)
    const aligned = from - (from % BLOCK_BYTES)
    all.set(noise.subarray(aligned, aligned + rowBytes), token * rowBytes)
  }
  return all
}

function ones(count: number): Buffer {
  return Buffer.from(new Float32Array(count).fill(1).buffer)
}

/** Blocks of a scale (half precision, about 3e-4) and 32 values. */
function noiseBytes(): Buffer {
  const random = seededRandom(1)
  const bytes = Buffer.alloc(BLOCK_BYTES * 4096)
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    bytes.writeUInt16LE(0x0d00, at)
    for (let i = 2; i < BLOCK_BYTES; i++) bytes[at + i] = Math.floor(random.next() * 256)
  }
  return bytes
}
