/**
 * One frame of every message of the protocol `baton`, as one version writes it: `scripts/record-wire.ts` records
 * them once per minor version, and `wire-versions.test.ts` checks that the versions understand each other.
 *
 * Contains only the messages and fields of 0.1.0; additions of later versions are separate cases, which older
 * recordings lack.
 */
import type * as Wire from '../../src/wire/index.ts'
import type { GenerateRequest } from '../../src/request/index.ts'

/** The functions of the room `wire` that a recording uses, in any version. */
export type WireFolder = typeof Wire

export interface WireCase {
  readonly name: string
  encode(wire: WireFolder, writer: Wire.FrameWriter): void
  decode(wire: WireFolder, tag: number, bytes: Uint8Array, start: number, end: number): unknown
  /** The result of `decode`. */
  readonly value: unknown
  /** A later version may add fields after those of 0.1.0. */
  readonly mayGrow?: boolean
}

const REQUEST: GenerateRequest = {
  requestId: 'r-1',
  model: 'storyteller',
  tokenIds: Uint32Array.of(1, 2, 0xffffffff),
  sampling: { temperature: 0.5, topP: 0.9, seed: 7, logitBias: { 5: -1.5 } },
  stop: { maxTokens: 12, stop: ['END'], stopTokenIds: [3], ignoreEos: false },
  output: { logprobs: 2, skipSpecialTokens: true },
  eosTokenIds: [2],
  routing: { dpRank: 1, cacheSalt: 'tenant', priority: 3 },
  resumedTokens: 1,
  prefillResult: {
    cachedTokens: 16,
    kvOffer: {
      offerId: 'offer',
      host: '10.0.0.1',
      port: 4000,
      fingerprint: 'model/layout',
      blockTokens: 16,
      tokenCount: 2,
      blockKeys: Uint32Array.of(5, 6),
      kvBytes: 1024,
      expiresInMs: 30_000,
    },
  },
}

const CHUNK = {
  tokenIds: [4, 5],
  logprobs: [
    { tokenId: 4, logprob: -0.5, top: [{ tokenId: 4, logprob: -0.5 }] },
    { tokenId: 5, logprob: -1.5, top: [] },
  ],
  engineData: { note: 'ü', list: [1, null, true], bytes: Uint8Array.of(1, 2) },
}

const FINISH = {
  tokenIds: [6],
  finish: 'length' as const,
  stopReason: 6,
  usage: { promptTokens: 3, completionTokens: 3, totalTokens: 6, cachedTokens: 2 },
}

const EMBEDDING = {
  tokenIds: [],
  finish: 'stop' as const,
  embedding: Float32Array.of(0.5, -2),
}

const LOAD = {
  dpRank: 1,
  activeBlocks: 10,
  totalBlocks: 100,
  runningRequests: 3,
  queuedRequests: 4,
  prefillTokensInFlight: 500,
}

const EVENTS = {
  sequence: 9,
  dpRank: 1,
  events: [
    { kind: 'cleared' as const },
    {
      kind: 'stored' as const,
      parent: [7, 8] as const,
      hashes: Uint32Array.of(1, 2, 3, 4),
      localHashes: Uint32Array.of(5, 6, 7, 8),
      tier: 'device' as const,
    },
    {
      kind: 'stored' as const,
      parent: null,
      hashes: Uint32Array.of(1, 2),
      localHashes: new Uint32Array(0),
      tier: 'host' as const,
    },
    { kind: 'removed' as const, hashes: Uint32Array.of(3, 4), tier: 'disk' as const },
  ],
}

const HELLO = {
  version: 1,
  versionOldest: 1,
  nonce: Uint8Array.from({ length: 16 }, (_, i) => i),
  role: 'worker' as const,
  software: 'baton 0.1.0',
  capabilities: ['kv-events'],
  limits: { streamsMax: 4096 },
  workerId: '7',
  authRequired: true,
}

const PLACE = { pullId: 3, index: 4, blockBytes: 65_536, offset: 1024, checksum: 0xdeadbeef }
const OFFER_ERROR = { code: 'kv.offer_gone', message: 'the offered KV is no longer held' } as const

export const WIRE_CASES: readonly WireCase[] = [
  {
    name: 'HELLO',
    encode: (wire, writer) => wire.encodeHello(writer, HELLO),
    decode: (wire, _, bytes, start, end) => wire.decodeHello(bytes, start, end),
    value: HELLO,
  },
  {
    name: 'REQUEST',
    encode: (wire, writer) => wire.encodeRequest(writer, 5, REQUEST),
    decode: (wire, _, bytes, start, end) => wire.decodeRequest(bytes, start, end),
    value: { streamId: 5, request: REQUEST },
  },
  {
    name: 'TOKENS',
    encode: (wire, writer) => writer.begin(wire.TAG.TOKENS).u32(5).u32(77).u32(6).u32(78).end(),
    decode: (wire, _, bytes, start, end) => {
      const pairs: number[][] = []
      wire.forEachPair(bytes, start, end, (stream, token) => pairs.push([stream, token]))
      return pairs
    },
    value: [
      [5, 77],
      [6, 78],
    ],
  },
  ...[CHUNK, FINISH, EMBEDDING].map((chunk, i): WireCase => ({
    name: ['CHUNK', 'FINISH', 'FINISH with an embedding'][i] ?? '',
    encode: (wire, writer) => wire.encodeChunk(writer, 5, chunk),
    decode: (wire, tag, bytes, start, end) => wire.decodeChunk(tag, bytes, start, end),
    value: { streamId: 5, chunk },
  })),
  {
    name: 'CANCEL',
    encode: (wire, writer) => wire.encodeCancel(writer, 5, 'kill'),
    decode: (wire, _, bytes, start, end) => wire.decodeCancel(bytes, start, end),
    value: { streamId: 5, kind: 'kill' },
  },
  {
    name: 'CREDIT',
    encode: (wire, writer) => wire.encodeCredit(writer, 5, 128),
    decode: (wire, _, bytes, start, end) => {
      const pairs: number[][] = []
      wire.forEachPair(bytes, start, end, (stream, items) => pairs.push([stream, items]))
      return pairs
    },
    value: [[5, 128]],
  },
  {
    name: 'KV_EVENTS',
    encode: (wire, writer) => wire.encodeKvEvents(writer, EVENTS),
    decode: (wire, _, bytes, start, end) => wire.decodeKvEvents(bytes, start, end),
    value: EVENTS,
  },
  {
    name: 'LOAD',
    encode: (wire, writer) => wire.encodeLoad(writer, LOAD),
    decode: (wire, _, bytes, start, end) => wire.decodeLoad(bytes, start, end),
    value: LOAD,
    mayGrow: true,
  },
  {
    name: 'KV_PULL',
    encode: (wire, writer) =>
      wire.encodeKvPull(writer, {
        pullId: 3,
        flags: 0,
        indexes: Uint32Array.of(0, 9),
        offerId: 'offer',
      }),
    decode: (wire, _, bytes, start, end) => wire.decodeKvPull(bytes, start, end),
    value: { pullId: 3, flags: 0, indexes: Uint32Array.of(0, 9), offerId: 'offer' },
  },
  {
    name: 'KV_CHUNK',
    encode: (wire, writer) => wire.encodeKvChunkHead(writer, PLACE, 0),
    decode: (wire, _, bytes, start, end) => wire.decodeKvChunkHead(bytes.subarray(start, end)),
    value: PLACE,
  },
  {
    name: 'KV_RELEASE',
    encode: (wire, writer) => wire.encodeKvRelease(writer, { kind: 'abandoned', offerId: 'offer' }),
    decode: (wire, _, bytes, start, end) => wire.decodeKvRelease(bytes, start, end),
    value: { kind: 'abandoned', offerId: 'offer' },
  },
  {
    name: 'GOODBYE',
    encode: (wire, writer) => {
      writer.begin((wire.TAG.GOODBYE | wire.SKIPPABLE) >>> 0)
      writer.bytes(wire.encodePlain(OFFER_ERROR, 'GOODBYE')).end()
    },
    decode: (wire, _, bytes, start, end) => wire.decodeRecord(bytes, start, end, 'GOODBYE'),
    value: OFFER_ERROR,
  },
]
