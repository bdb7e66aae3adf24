/**
 * The checksum of a KV chunk: the low half of XXH3-64, here three times as fast as a CRC-32 (`bench/transfer.ts`).
 *
 * A chunk longer than 256 KiB is hashed in pieces, each with the previous hash as its seed. Detects damage, not
 * forgery: only peers that know the secret, or use TLS, can send chunks.
 */
import { xxh3 } from '../kv/index.ts'

const PIECE_BYTES = 256 * 1024

/**
 * The checksum as sent: combined with the position of the bytes and with the key of their block, so that a damaged head
 * does not put valid bytes into the wrong block, of the same pull or of another on the connection.
 */
export function keyedChecksum(
  checksum: number,
  { index, blockBytes, offset }: { index: number; blockBytes: number; offset: number },
  blockKeys: Uint32Array,
): number {
  const key = (blockKeys[2 * index] ?? 0) ^ Math.imul(blockKeys[2 * index + 1] ?? 0, 0x27d4eb2f)
  let mixed = checksum ^ key ^ Math.imul(index + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca77) ^ blockBytes
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae3d) ^ offset
  return (mixed ^ (mixed >>> 16)) >>> 0
}

export function kvChecksum(bytes: Uint8Array): number {
  let hash = xxh3(bytes.subarray(0, PIECE_BYTES))
  for (let at = PIECE_BYTES; at < bytes.length; at += PIECE_BYTES) {
    hash = xxh3(bytes.subarray(at, at + PIECE_BYTES), hash)
  }
  return hash[0]
}
