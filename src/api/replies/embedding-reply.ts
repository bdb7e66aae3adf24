/** The reply of `POST /v1/embeddings`: one vector per input, as numbers or as base64 of little-endian f32. */
import { asciiJson } from '../fields/json-escape.ts'

interface EmbeddingReply {
  readonly model: string
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[]
  readonly encoding: 'float' | 'base64'
  readonly promptTokens: number
}

export function embeddingReplyJson(reply: EmbeddingReply): string {
  const { model, vectors, encoding, promptTokens } = reply
  return asciiJson({
    object: 'list',
    data: vectors.map((vector, index) => ({
      object: 'embedding',
      index,
      embedding: encoding === 'base64' ? base64OfFloats(vector) : Array.from(vector),
    })),
    model,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  })
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function base64OfFloats(vector: Float32Array): string {
  const bytes = new Uint8Array(vector.length * 4)
  const view = new DataView(bytes.buffer)
  vector.forEach((value, i) => view.setFloat32(4 * i, value, true))
  let text = ''
  for (let at = 0; at < bytes.length; at += 3) {
    const count = Math.min(3, bytes.length - at)
    const bits = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
    for (let i = 0; i < 4; i++) {
      text += i > count ? '=' : (ALPHABET[(bits >>> (18 - 6 * i)) & 63] ?? '')
    }
  }
  return text
}
