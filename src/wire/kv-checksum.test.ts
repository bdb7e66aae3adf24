import { xxh3 as oracle } from '@node-rs/xxhash'
import { describe, expect, it } from 'vitest'

import { kvChecksum } from './kv-checksum.ts'

const KIB = 1024
const bytesOf = (length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + (i >>> 8)) & 0xff)

describe('kvChecksum', () => {
  it.each([0, 1, 240, 241, 24 * KIB, 256 * KIB])('%i bytes - the low half of XXH3-64', (length) => {
    const bytes = bytesOf(length)
    expect(kvChecksum(bytes)).toBe(Number(oracle.xxh64(bytes) & 0xffffffffn))
  })

  it('more than 256 KiB - is hashed in pieces, each with the previous hash as its seed', () => {
    const bytes = bytesOf(600 * KIB + 5)
    let hash = 0n
    for (let at = 0; at < bytes.length; at += 256 * KIB) {
      hash = oracle.xxh64(bytes.subarray(at, at + 256 * KIB), hash)
    }
    expect(kvChecksum(bytes)).toBe(Number(hash & 0xffffffffn))
  })

  it('recorded values - the checksum on the wire does not change', () => {
    expect(kvChecksum(new TextEncoder().encode('baton'))).toBe(115_779_206)
  })
})
