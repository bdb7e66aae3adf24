/**
 * Combines several WebP images into one animated WebP file.
 *
 * Owns only the container (https://developers.google.com/speed/webp/docs/riff_container); the images are encoded by
 * the browser that draws them.
 */
export interface Frame {
  /** A WebP file without transparency. */
  readonly webp: Uint8Array
  /** Its position in the picture; both are even. */
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  readonly durationMs: number
}

const HEAD_BYTES = 12
const CHUNK_HEAD_BYTES = 8
const IS_ANIMATED = 0x02
/** The frame replaces what was there. */
const NO_BLENDING = 0x02
const FOREVER = 0

export function animatedWebp(width: number, height: number, frames: readonly Frame[]): Uint8Array {
  const canvas = Buffer.alloc(10)
  canvas.writeUInt8(IS_ANIMATED, 0)
  canvas.writeUIntLE(width - 1, 4, 3)
  canvas.writeUIntLE(height - 1, 7, 3)
  const animation = Buffer.alloc(6)
  animation.writeUInt16LE(FOREVER, 4)
  const body = Buffer.concat([
    Buffer.from('WEBP'),
    chunk('VP8X', canvas),
    chunk('ANIM', animation),
    ...frames.map((frame) => chunk('ANMF', frameBytes(frame))),
  ])
  return chunk('RIFF', body)
}

function frameBytes({ webp, x, y, width, height, durationMs }: Frame): Buffer {
  if (x % 2 !== 0 || y % 2 !== 0) throw new Error(`a frame cannot start at ${x}, ${y}`)
  const head = Buffer.alloc(16)
  head.writeUIntLE(x / 2, 0, 3)
  head.writeUIntLE(y / 2, 3, 3)
  head.writeUIntLE(width - 1, 6, 3)
  head.writeUIntLE(height - 1, 9, 3)
  head.writeUIntLE(Math.round(durationMs), 12, 3)
  head.writeUInt8(NO_BLENDING, 15)
  return Buffer.concat([head, pictureChunk(webp)])
}

/** The chunk of a file that contains the image data. */
function pictureChunk(webp: Uint8Array): Buffer {
  const bytes = Buffer.from(webp.buffer, webp.byteOffset, webp.byteLength)
  for (let at = HEAD_BYTES; at + CHUNK_HEAD_BYTES <= bytes.length;) {
    const name = bytes.toString('latin1', at, at + 4)
    const size = bytes.readUInt32LE(at + 4)
    const end = at + CHUNK_HEAD_BYTES + size + (size % 2)
    if (name === 'VP8 ' || name === 'VP8L') return bytes.subarray(at, end)
    at = end
  }
  throw new Error('not a WebP file with image data')
}

function chunk(name: string, data: Buffer): Buffer {
  const head = Buffer.alloc(CHUNK_HEAD_BYTES)
  head.write(name, 'latin1')
  head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)])
}
