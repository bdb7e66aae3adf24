/**
 * The checksum of a chunk of KV: the low half of XXH3-64, three times as fast here as a CRC-32 (`bench/transfer.ts`).
 *
 * A chunk longer than 256 KiB is hashed in pieces of so many bytes, each with the hash of the one before as its seed.
 * It finds damage, not forgery: who could forge chunks is kept out by the secret or by TLS.
 */
import { xxh3 } from '../kv/index.ts'

const PIECE_BYTES = 256 * 1024

/**
 * The checksum as it is sent: with the place that the bytes belong to, so that a damaged head does not put good bytes into
 * the wrong block.
 */
export function placedChecksum(
  checksum: number,
  { index, blockBytes, offset }: { index: number; blockBytes: number; offset: number },
): number {
  let mixed = checksum ^ Math.imul(index + 1, 0x9e3779b1)
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
