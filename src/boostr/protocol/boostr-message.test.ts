import { describe, expect, it } from 'vitest'

import {
  TOKEN_END,
  TOKEN_EOS,
  decodeBoostr,
  decodeKvCacheHeader,
  encodeBoostr,
  encodeKvCache,
} from './boostr-message.ts'
import type { BoostrMessage } from './boostr-message.ts'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const GOLDEN: readonly (readonly [BoostrMessage, number, string])[] = [
  [
    { kind: 'prefill-request', requestId: 42n, seqLen: 128, decodeRank: 3 },
    30,
    '2a000000000000008000000003000000',
  ],
  [
    { kind: 'prefill-done', requestId: 99n, kvBytes: 1048576n },
    31,
    '63000000000000000000100000000000',
  ],
  [{ kind: 'kv-cache-ack', isRefused: false }, 33, '0000000000000000'],
  [{ kind: 'kv-cache-ack', isRefused: true }, 33, '0100000000000000'],
  [
    { kind: 'decode-request', requestId: 7n, maxNewTokens: 512 },
    34,
    '07000000000000000002000000000000',
  ],
  [
    { kind: 'decode-token', requestId: 1n, tokenId: 12345n },
    35,
    '01000000000000003930000000000000',
  ],
  [
    { kind: 'decode-token', requestId: 1n, tokenId: TOKEN_END },
    35,
    '0100000000000000ffffffffffffffff',
  ],
  [
    { kind: 'decode-token', requestId: 1n, tokenId: TOKEN_EOS },
    35,
    '01000000000000000000000000000080',
  ],
  [{ kind: 'decode-done', requestId: 7n }, 36, '0700000000000000'],
  [
    { kind: 'request-cancel', requestId: 7n, routerRank: 3 },
    37,
    '07000000000000000300000000000000',
  ],
  [
    { kind: 'activation', tokenIds: BigInt64Array.of(1n, -1n) },
    10,
    '0100000000000000ffffffffffffffff',
  ],
]

describe('boostr messages', () => {
  for (const [message, tag, bytes] of GOLDEN) {
    it(`golden vector - ${message.kind} ${bytes}`, () => {
      const frame = encodeBoostr(message)
      expect(frame.tag).toBe(tag)
      expect(hex(frame.payload)).toBe(bytes)
      expect(decodeBoostr(tag, frame.payload)).toEqual(message)
    })
  }

  it('DECODE_DONE - 16 bytes are accepted as well as 8', () => {
    const payload = new Uint8Array(16)
    payload[0] = 7
    expect(decodeBoostr(36, payload)).toEqual({ kind: 'decode-done', requestId: 7n })
  })

  it('every message - one byte short or long is refused by name', () => {
    for (const [, tag, bytes] of GOLDEN) {
      const payload = Buffer.from(bytes, 'hex')
      for (const wrong of [payload.subarray(1), Buffer.concat([payload, Buffer.of(0)])]) {
        expect(() => decodeBoostr(tag, wrong)).toThrow(/bytes/)
      }
    }
  })

  it('padding of DECODE_REQUEST - is ignored on read', () => {
    const payload = Buffer.from('070000000000000000020000ffffffff', 'hex')
    expect(decodeBoostr(34, payload)).toEqual({
      kind: 'decode-request',
      requestId: 7n,
      maxNewTokens: 512,
    })
  })

  it('KV_CACHE - a length, then the bytes; a length over 2^53 is refused', () => {
    const [header, body] = encodeKvCache(Uint8Array.of(1, 2, 3))
    expect(hex(header.payload)).toBe('0300000000000000')
    expect(decodeKvCacheHeader(header.payload)).toBe(3)
    expect(hex(body.payload)).toBe('010203')
    expect(() => decodeKvCacheHeader(Buffer.from('ffffffffffffffff', 'hex'))).toThrow(/bytes/)
  })
})
