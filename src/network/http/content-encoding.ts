/**
 * Decodes compressed request bodies, within the size limit of the plain body, so that a small body cannot expand
 * without limit.
 */
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import { BatonError } from '../../base/index.ts'

const DECODERS = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
} as const

/**
 * The plain bytes; null when there are more than `bytesMax`. Throws `request.unsupported_media` for an unknown
 * encoding, and `request.invalid_argument` for bytes that do not have the announced encoding.
 */
export async function decodeContent(
  body: Uint8Array,
  encoding: string | undefined,
  bytesMax: number,
): Promise<Uint8Array | null> {
  const name = encoding?.trim().toLowerCase() ?? ''
  if (name === '' || name === 'identity') return body
  if (!isKnown(name)) {
    throw new BatonError(
      'request.unsupported_media',
      `content-encoding ${name} is not supported: expected ${Object.keys(DECODERS).join(', ')} or none`,
      { data: { contentEncoding: name } },
    )
  }
  try {
    return await DECODERS[name](body, { maxOutputLength: Math.max(bytesMax, 1) })
  } catch (error) {
    if (error instanceof RangeError) return null
    throw new BatonError('request.invalid_argument', `the body is not valid ${name}`, {
      cause: error,
    })
  }
}

function isKnown(name: string): name is keyof typeof DECODERS {
  return Object.hasOwn(DECODERS, name)
}
