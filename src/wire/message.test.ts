import { describe, expect, it } from 'vitest'

import { BatonError } from '../base/index.ts'
import type { KvEventBatch } from '../kv/index.ts'
import { finishChunk } from '../request/index.ts'
import type { GenerateRequest } from '../request/index.ts'
import { decodeAnswer, encodeAnswer } from './ask-message.ts'
import { decodeKvEvents, decodeLoad, encodeKvEvents, encodeLoad } from './fleet-message.ts'
import { FrameWriter } from './frame-writer.ts'
import {
  decodeKvChunkHead,
  decodeKvPull,
  decodeKvPullEnd,
  decodeKvRelease,
  encodeKvChunkHead,
  encodeKvPull,
  encodeKvPullEnd,
  encodeKvRelease,
} from './kv-message.ts'
import { decodePlain, encodePlain } from './plain-value.ts'
import {
  decodeCancel,
  decodeChunk,
  decodeError,
  encodeCancel,
  encodeChunk,
  encodeError,
} from './reply-message.ts'
import { decodeRequest, encodeRequest } from './request-message.ts'
import { TAG } from './tag.ts'

/** The payload of the one frame in a writer, as a Buffer at an odd place of a larger one, as sockets give it. */
function payloadOf(write: (writer: FrameWriter) => void): Buffer {
  const writer = new FrameWriter()
  write(writer)
  const bytes = writer.take() ?? new Uint8Array(0)
  return Buffer.concat([Buffer.of(9), bytes]).subarray(9)
}

const REQUEST: GenerateRequest = {
  requestId: 'r-1',
  model: 'm',
  tokenIds: Uint32Array.of(1, 2, 0xffffffff),
  sampling: { temperature: 0.7, seed: 2 ** 50, logitBias: { 12: -3.5 } },
  stop: { maxTokens: 5, stop: ['ä', '\u{1f600}'] },
  output: { logprobs: 2 },
  eosTokenIds: [2],
  routing: { allowedWorkerIds: [], preferredTaints: { gpu: 1 } },
  prefillResult: {
    kvOffer: {
      offerId: 'o',
      host: 'h',
      port: 1,
      fingerprint: 'f',
      blockTokens: 16,
      tokenCount: 20,
      blockKeys: Uint32Array.of(1, 2, 3, 0xfffffffe),
      kvBytes: 1e10,
      expiresInMs: 30_000,
    },
    engineParams: { any: [null, true, 1.5, 'x', { deep: -1 }] },
  },
}

describe('messages', () => {
  it('REQUEST - is restored, also with numbers over 32 bits and an offer', () => {
    const payload = payloadOf((writer) => encodeRequest(writer, 77, REQUEST))
    const decoded = decodeRequest(payload, 0, payload.length)
    expect(decoded).toEqual({ streamId: 77, request: REQUEST })
    payload.fill(0)
    expect(decoded.request).toEqual(REQUEST)
  })

  it('REQUEST and CHUNK - too long for a frame, they fail at the sender and nothing is written', () => {
    const writer = new FrameWriter()
    const tokenIds = new Uint32Array(17 * 1024 * 1024)
    expect(() => encodeRequest(writer, 1, { ...REQUEST, tokenIds })).toThrow(/limit/)
    const engineData = new Uint8Array(17 * 1024 * 1024)
    expect(() => encodeChunk(writer, 1, { tokenIds: [], engineData })).toThrow(/limit/)
    expect(writer.take()).toBeUndefined()
  })

  it('REQUEST - truncated anywhere, it is refused as a protocol error', () => {
    const payload = payloadOf((writer) => encodeRequest(writer, 77, REQUEST))
    for (let end = 0; end < payload.length; end++) {
      expect(() => decodeRequest(payload, 0, end)).toThrow(BatonError)
    }
  })

  it('REQUEST - a missing field or an invalid offer is refused by name', () => {
    const broken = (change: object): void => {
      const request = { ...REQUEST, ...change } as GenerateRequest
      const payload = payloadOf((writer) => encodeRequest(writer, 1, request))
      decodeRequest(payload, 0, payload.length)
    }
    expect(() => broken({ sampling: undefined })).toThrow(/'sampling'/)
    expect(() => broken({ requestId: 5 })).toThrow(/'requestId'/)
    expect(() => broken({ prefillResult: { kvOffer: { offerId: 'x' } } })).toThrow(/kvOffer/)
  })

  it('REQUEST and FINISH of an embedding - the kind and every f32 are restored; an invalid kind or vector is refused', () => {
    const asked = (kind: unknown) => {
      const request = { ...REQUEST, kind } as GenerateRequest
      const payload = payloadOf((writer) => encodeRequest(writer, 1, request))
      return decodeRequest(payload, 0, payload.length).request.kind
    }
    expect([asked('embed'), asked(undefined)]).toEqual(['embed', undefined])
    expect(() => asked('sing')).toThrow(/'kind'/)
    const answered = (embedding: unknown) => {
      const chunk = finishChunk('stop', { embedding: embedding as Float32Array })
      const payload = payloadOf((writer) => encodeChunk(writer, 1, chunk))
      return decodeChunk(TAG.FINISH, payload, 0, payload.length).chunk.embedding
    }
    expect(answered(Float32Array.of(0.1, -2))).toEqual(Float32Array.of(0.1, -2))
    expect(() => answered([0.1])).toThrow(/f32/)
  })

  it('plain values - a value that cannot be sent fails at the sender', () => {
    for (const value of [new Set([1]), new Error('x'), new Date(0), /x/]) {
      expect(() => encodePlain({ value }, 'it')).toThrow(/cannot be sent/)
    }
    const round = Array<number>(0) as unknown[]
    let nested: unknown[] = round
    for (let i = 0; i < 100; i++) nested.push((nested = []))
    expect(() => encodePlain(round, 'it')).toThrow(/cannot be sent/)
  })

  it('plain values - an impossible length is refused without allocation', () => {
    for (const hex of ['ddffffffff', 'dfffffffff', 'c6ffffffff00', 'dc7fff01', '9f', 'd9ff']) {
      const bytes = Buffer.from(hex, 'hex')
      expect(() => decodePlain(bytes, 0, bytes.length, 'it')).toThrow(/early|shorter|cut/)
    }
    const nested = Buffer.concat([Buffer.alloc(100, 0x91), Buffer.of(1)])
    expect(() => decodePlain(nested, 0, nested.length, 'it')).toThrow(/deeply/)
    for (const hex of ['c1', 'd40001', 'd6ff00000000', 'c7017201']) {
      const bytes = Buffer.from(hex, 'hex')
      expect(() => decodePlain(bytes, 0, bytes.length, 'it')).toThrow(/not allowed/)
    }
  })

  it('plain values - a key __proto__ is an ordinary key, wherever it is', () => {
    for (const text of [
      '{"__proto__":{"a":1}}',
      '{"a":[{"b":{"__proto__":null,"c":2}}],"__proto":1}',
      '{"list":["__proto__"],"proto":{}}',
    ]) {
      const bytes = encodePlain(JSON.parse(text), 'a value')
      const back = decodePlain(bytes, 0, bytes.length, 'a value')
      expect(JSON.stringify(back)).toBe(text)
      expect(Object.getPrototypeOf(back)).toBe(Object.prototype)
    }
  })

  it('plain values - typed arrays keep type and numbers', () => {
    const value = { u: Uint32Array.of(1, 2 ** 31), b: Uint8Array.of(7), f: Float32Array.of(0.5) }
    const bytes = encodePlain(value, 'it')
    const back = decodePlain(bytes, 0, bytes.length, 'it') as typeof value
    expect([...back.u, ...back.b, ...back.f]).toEqual([1, 2 ** 31, 7, 0.5])
  })

  it('plain values - a typed array of an unknown class, or without whole numbers, is refused', () => {
    // [typed array, class, bytes]; 6 is Uint32Array, whose numbers have 4 bytes.
    const decode = (hex: string) => {
      const bytes = Buffer.from(hex, 'hex')
      return decodePlain(bytes, 0, bytes.length, 'it')
    }
    expect(decode('c7057406' + '01000000')).toEqual(Uint32Array.of(1))
    expect(() => decode('c7047406' + '010000')).toThrow(/no whole numbers/)
    expect(() => decode('c70574ff' + '01000000')).toThrow(/no whole numbers/)
    expect(() => decode('c70074')).toThrow()
    class Odd extends Uint32Array {}
    expect(() => encodePlain({ odd: new Odd(1) }, 'it')).toThrow(/cannot be sent/)
  })

  it('an answer that cannot be sent - is answered with the reason', () => {
    const payload = payloadOf((writer) =>
      encodeAnswer(writer, TAG.COMMAND, { answer: new Map([[1, 2n ** 70n]]) }),
    )
    expect(() => decodeAnswer(payload, 0, payload.length)).toThrow(/cannot be sent/)
  })

  it('CHUNK and FINISH - the tag tells whether the chunk is terminal', () => {
    const finish = { tokenIds: [], finish: 'stop' as const, usage: undefined }
    const payload = payloadOf((writer) => encodeChunk(writer, 3, finish as never))
    expect(decodeChunk(TAG.FINISH, payload, 0, payload.length)).toEqual({
      streamId: 3,
      chunk: { tokenIds: [], finish: 'stop' },
    })
    expect(() => decodeChunk(TAG.CHUNK, payload, 0, payload.length)).toThrow(/finish/)
  })

  it('CHUNK - carries text, and only strings as text', () => {
    const chunk = { tokenIds: [], text: 'a\u{1F600}' }
    const payload = payloadOf((writer) => encodeChunk(writer, 3, chunk))
    expect(decodeChunk(TAG.CHUNK, payload, 0, payload.length).chunk).toEqual(chunk)
    const wrong = payloadOf((writer) => encodeChunk(writer, 3, { ...chunk, text: 5 as never }))
    expect(() => decodeChunk(TAG.CHUNK, wrong, 0, wrong.length)).toThrow(/text/)
  })

  it('ERROR - keeps code, message and data; an unknown code becomes backend.unknown', () => {
    const error = new BatonError('kv.offer_gone', 'x', { data: { a: 1, b: null } })
    const payload = payloadOf((writer) => encodeError(writer, 5, error))
    const { error: back } = decodeError(payload, 0, payload.length)
    expect(back.toValue()).toEqual(error.toValue())
    const odd = payloadOf((writer) => {
      writer
        .begin(TAG.ERROR)
        .u64(5)
        .bytes(encodePlain({ code: 'new.code', message: 'm' }, 'e'))
        .end()
    })
    expect(decodeError(odd, 0, odd.length).error.code).toBe('backend.unknown')
  })

  it('CANCEL - both kinds, and no other', () => {
    for (const kind of ['stop', 'kill'] as const) {
      const payload = payloadOf((writer) => encodeCancel(writer, 9, kind))
      expect(decodeCancel(payload, 0, payload.length)).toEqual({ streamId: 9, kind })
      payload[8] = 3
      expect(() => decodeCancel(payload, 0, payload.length)).toThrow(/kind/)
    }
  })

  it('KV_EVENTS - every kind is restored, a truncated batch is refused', () => {
    const batch: KvEventBatch = {
      sequence: 2 ** 40,
      dpRank: 3,
      events: [
        { kind: 'cleared' },
        {
          kind: 'stored',
          parent: [1, 0xffffffff],
          hashes: Uint32Array.of(1, 2, 3, 4),
          localHashes: Uint32Array.of(5, 6, 7, 8),
          tier: 'host',
        },
        {
          kind: 'stored',
          parent: null,
          hashes: Uint32Array.of(1, 2),
          localHashes: new Uint32Array(0),
          tier: 'device',
        },
        { kind: 'removed', hashes: Uint32Array.of(9, 9), tier: 'disk' },
      ],
    }
    const payload = payloadOf((writer) => encodeKvEvents(writer, batch))
    expect(decodeKvEvents(payload, 0, payload.length)).toEqual(batch)
    for (let end = 0; end < payload.length; end++) {
      expect(() => decodeKvEvents(payload, 0, end)).toThrow(BatonError)
    }
  })

  it('LOAD - is restored; fields of a newer peer are ignored', () => {
    const report = {
      dpRank: 1,
      activeBlocks: 2,
      totalBlocks: 3,
      runningRequests: 4,
      queuedRequests: 5,
      prefillTokensInFlight: 6,
    }
    const payload = payloadOf((writer) => encodeLoad(writer, report))
    const longer = Buffer.concat([payload, Buffer.alloc(8)])
    expect(decodeLoad(longer, 0, longer.length)).toEqual(report)
  })

  it('KV messages - are restored', () => {
    const head = { pullId: 1, index: 2, blockBytes: 3, offset: 4, checksum: 0xffffffff }
    const pull = { pullId: 1, flags: 1, indexes: Uint32Array.of(3, 1), offerId: 'ö' }
    const end = { pullId: 4, error: new BatonError('kv.offer_gone', 'gone') }
    const of = payloadOf
    let bytes = of((writer) => encodeKvPull(writer, pull))
    expect(decodeKvPull(bytes, 0, bytes.length)).toEqual(pull)
    bytes = of((writer) => encodeKvChunkHead(writer, head, 0))
    expect(decodeKvChunkHead(bytes)).toEqual(head)
    bytes = of((writer) => encodeKvPullEnd(writer, end))
    expect(decodeKvPullEnd(bytes, 0, bytes.length).error?.toValue()).toEqual(end.error.toValue())
    bytes = of((writer) => encodeKvPullEnd(writer, { pullId: 4 }))
    expect(decodeKvPullEnd(bytes, 0, bytes.length)).toEqual({ pullId: 4 })
    bytes = of((writer) => encodeKvRelease(writer, { kind: 'abandoned', offerId: 'o' }))
    expect(decodeKvRelease(bytes, 0, bytes.length)).toEqual({ kind: 'abandoned', offerId: 'o' })
  })
})
