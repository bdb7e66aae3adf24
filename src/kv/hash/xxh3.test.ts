import { xxh3 as oracle } from '@node-rs/xxhash'
import { describe, expect, it } from 'vitest'
import { randomInt, seededRandom } from '../../base/index.ts'
import { hashPairOf, hashToBigint } from './hash-pair.ts'
import { INPUT_BYTES_MAX } from './xxh3-kernel.ts'
import { xxh3, xxh3Text } from './xxh3.ts'

describe('xxh3', () => {
  it('xxh3 - agrees with the reference library at every length up to 2,200 bytes and three seeds', () => {
    const random = seededRandom(20260101)
    const bytes = Uint8Array.from({ length: 2200 }, () => randomInt(random, 256))
    const wrong: string[] = []
    for (const seed of [0n, 1337n, 0xf123456789abcdefn]) {
      const pair = hashPairOf(seed)
      for (let length = 0; length <= bytes.length; length++) {
        const input = bytes.subarray(0, length)
        const expected = oracle.xxh64(Buffer.from(input), seed)
        if (hashToBigint(...xxh3(input, pair)) !== expected) wrong.push(`${length} @ ${seed}`)
      }
    }
    expect(wrong).toEqual([])
  })

  it('xxh3 - agrees up to the maximum input length and refuses longer inputs', () => {
    const bytes = new Uint8Array(INPUT_BYTES_MAX).map((_, i) => i * 31)
    expect(hashToBigint(...xxh3(bytes, [7, 9]))).toBe(
      oracle.xxh64(Buffer.from(bytes), (9n << 32n) | 7n),
    )
    expect(() => xxh3(new Uint8Array(INPUT_BYTES_MAX + 1))).toThrow(/too long/)
  })

  it('xxh3 - reproduces the published anchor', () => {
    expect(hashToBigint(...xxh3Text('test data', [1337, 0]))).toBe(13226331709069118873n)
  })
})
