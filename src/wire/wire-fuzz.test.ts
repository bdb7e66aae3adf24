import { describe, expect, it } from 'vitest'

import { BatonError, randomInt, seededRandom } from '../base/index.ts'
import type { Random } from '../base/index.ts'
import { BoostrDecodeWorker } from '../boostr/protocol/boostr-decode-worker.ts'
import type { BoostrNode } from '../boostr/protocol/boostr-link.ts'
import {
  TOKEN_END,
  decodeBoostr,
  decodeKvCacheHeader,
  encodeBoostr,
  encodeKvCache,
} from '../boostr/protocol/boostr-message.ts'
import type { BoostrFrame, BoostrMessage } from '../boostr/protocol/boostr-message.ts'
import { BoostrPrefillWorker } from '../boostr/protocol/boostr-prefill-worker.ts'
import { BoostrRouter } from '../boostr/protocol/boostr-router.ts'
import { createDisaggConfig } from '../boostr/protocol/disagg-config.ts'
import { decodeKvF32, encodeKvF32 } from '../boostr/protocol/kv-f32.ts'
import { unwrapKv, wrapKv } from '../boostr/protocol/kv-envelope.ts'
import { decodeKvEvents, decodeLoad, encodeKvEvents, encodeLoad } from './fleet-message.ts'
import { FrameDecoder } from './frame-decoder.ts'
import { batonLimits, boostrLimits } from './frame-limits.ts'
import { FrameWriter } from './frame-writer.ts'
import { Handshake } from './handshake.ts'
import { decodeHello, encodeHello } from './hello.ts'
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
import {
  decodeCancel,
  decodeChunk,
  decodeError,
  encodeCancel,
  encodeChunk,
  encodeCredit,
  encodeError,
  forEachPair,
} from './reply-message.ts'
import { decodeRecord, encodePlain } from './plain-value.ts'
import { decodeRequest, encodeRequest } from './request-message.ts'
import { TAG } from './tag.ts'

/** Frames per run; more by hand: BATON_FUZZ_FRAMES=1000000 BATON_FUZZ_SEED=1 npx vitest run src/wire/wire-fuzz */
const FRAMES = Number(process.env['BATON_FUZZ_FRAMES'] ?? 30_000)
const SEED = Number(process.env['BATON_FUZZ_SEED'] ?? Date.now() % 1e9)

/** Everything that a connection could do with a frame. */
function decodeAny(tag: number, bytes: Uint8Array, start: number, end: number): void {
  switch (tag) {
    case TAG.HELLO:
      return void decodeHello(bytes, start, end)
    case TAG.REQUEST:
      return void decodeRequest(bytes, start, end)
    case TAG.TOKENS:
    case TAG.CREDIT:
      return forEachPair(bytes, start, end, () => undefined)
    case TAG.CHUNK:
    case TAG.FINISH:
      return void decodeChunk(tag, bytes, start, end)
    case TAG.ERROR:
      return void decodeError(bytes, start, end)
    case TAG.CANCEL:
      return void decodeCancel(bytes, start, end)
    case TAG.KV_EVENTS:
      return void decodeKvEvents(bytes, start, end)
    case TAG.LOAD:
      return void decodeLoad(bytes, start, end)
    case TAG.KV_PULL:
      return void decodeKvPull(bytes, start, end)
    case TAG.KV_PULL_END:
      return void decodeKvPullEnd(bytes, start, end)
    case TAG.KV_RELEASE:
      return void decodeKvRelease(bytes, start, end)
    case TAG.KV_CHUNK:
      return void decodeKvChunkHead(bytes.subarray(start, end))
    case TAG.GOODBYE:
      return void decodeRecord(bytes, start, end, 'GOODBYE')
    case TAG.KV_CACHE:
      return void decodeKvCacheHeader(bytes.subarray(start, end))
    default:
      if (tag < TAG.HELLO) decodeBoostr(tag, bytes.subarray(start, end))
  }
}

function samples(): Uint8Array[] {
  const frame = (write: (writer: FrameWriter) => void): Uint8Array => {
    const writer = new FrameWriter()
    write(writer)
    return writer.take() ?? new Uint8Array(0)
  }
  const request = {
    requestId: 'r',
    model: 'm',
    tokenIds: Uint32Array.of(1, 2, 3),
    sampling: { temperature: 1 },
    stop: { stop: ['x'] },
    output: {},
    eosTokenIds: [1],
    routing: { sessionId: 's' },
    prefillResult: { engineParams: [1, { a: null }, new Uint8Array(9)] },
  }
  const hello = {
    version: 1,
    versionOldest: 1,
    nonce: new Uint8Array(16),
    role: 'worker' as const,
    software: 'x',
    capabilities: ['a'],
    limits: { n: 1 },
    authRequired: true,
  }
  const hashes = Uint32Array.of(1, 2, 3, 4)
  const stored = {
    kind: 'stored' as const,
    parent: [1, 2] as const,
    hashes,
    tier: 'device' as const,
  }
  return [
    frame((w) => encodeRequest(w, 1, request)),
    frame((w) => encodeHello(w, hello)),
    frame((w) => encodeChunk(w, 1, { tokenIds: [1], logprobs: [] })),
    frame((w) => encodeChunk(w, 1, { tokenIds: [], finish: 'stop', engineData: { a: [1] } })),
    frame((w) => encodeError(w, 1, new BatonError('backend.unknown', 'x', { data: { a: 1 } }))),
    frame((w) => encodeCancel(w, 1, 'kill')),
    frame((w) => {
      const events = [{ ...stored, localHashes: hashes }, { kind: 'cleared' as const }]
      encodeKvEvents(w, { sequence: 1, dpRank: 0, events })
    }),
    frame((w) => {
      encodeLoad(w, {
        dpRank: 0,
        activeBlocks: 1,
        totalBlocks: 2,
        runningRequests: 3,
        queuedRequests: 4,
        prefillTokensInFlight: 5,
      })
    }),
    frame((w) => encodeKvPull(w, { pullId: 1, flags: 0, indexes: hashes, offerId: 'abc' })),
    frame((w) => encodeKvPullEnd(w, { pullId: 1, error: new BatonError('kv.offer_gone', 'x') })),
    frame((w) => encodeKvRelease(w, { kind: 'acknowledged', offerId: 'abc' })),
    frame((w) => encodeKvChunkHead(w, CHUNK, 0)),
    frame((w) => encodeCredit(w, 1, 2)),
    frame((w) =>
      w
        .begin(TAG.GOODBYE)
        .bytes(encodePlain({ code: 'a', message: 'b' }, 'x'))
        .end(),
    ),
    frame((w) => w.begin(TAG.TOKENS).u32(1).u32(2).end()),
    ...boostrSamples().map(({ tag, payload }) => frame((w) => w.begin(tag).bytes(payload).end())),
  ]
}

const CHUNK = { pullId: 1, index: 2, blockBytes: 8, offset: 4, checksum: 5 }

/** One of each, as one request has them. */
function boostrSamples(): BoostrFrame[] {
  const requestId = 1n
  const messages: BoostrMessage[] = [
    { kind: 'activation', tokenIds: BigInt64Array.of(1n, 2n) },
    { kind: 'prefill-request', requestId, seqLen: 2, decodeRank: 2 },
    { kind: 'prefill-done', requestId, kvBytes: 100n },
    { kind: 'kv-cache-ack', isRefused: false },
    { kind: 'request-cancel', requestId, routerRank: 0 },
    { kind: 'decode-request', requestId, maxNewTokens: 3 },
    { kind: 'decode-token', requestId, tokenId: 7n },
    { kind: 'decode-token', requestId, tokenId: TOKEN_END },
    { kind: 'decode-done', requestId },
  ]
  const envelope = { startPosition: 2, routerRank: 0, requestId, lastToken: 2n }
  return [...messages.map(encodeBoostr), ...encodeKvCache(wrapKv(envelope, KV_F32))]
}

const KV_F32 = encodeKvF32({
  seqLen: 1,
  layers: [
    {
      batch: 1,
      kvHeads: 1,
      headDim: 2,
      keys: Float32Array.of(1, 2),
      values: Float32Array.of(3, 4),
    },
  ],
})

/** The three roles, with a link that only counts. */
function boostrNodes(): BoostrNode[] {
  const link = { send: () => undefined, reset: () => undefined }
  const clock = { nowMs: () => 0, epochMs: () => 0, after: () => ({ cancel: () => undefined }) }
  const common = { link, clock, peers: 'baton', maxKvTransferBytes: 1_000 } as const
  const config = createDisaggConfig({
    prefillWorkers: [1],
    decodeWorkers: [2],
    routerRank: 0,
    maxKvTransferBytes: 1_000,
  })
  const limits = { prefillMs: 1, tokenMs: 1, queueMax: 10, affinityMax: 10 }
  const router = new BoostrRouter({ config, link, clock, peers: 'baton', ...limits })
  const reply = { onToken: () => undefined, onDone: () => undefined, onError: () => undefined }
  router.routeRequest({ tokenIds: BigInt64Array.of(1n, 2n), maxNewTokens: 3 }, reply)
  return [
    router,
    new BoostrPrefillWorker({
      ...common,
      prefill: (_tokenIds, done) => done(KV_F32),
      decodeWorkers: [2],
      ackMs: 1,
      parkedMax: 5,
    }),
    new BoostrDecodeWorker({
      ...common,
      decodeStep: (kv) => ({ tokenId: 1n, kv }),
      kvWaitMs: 1,
    }),
  ]
}

/** Every error that ends a connection has a reason. */
function expectNamed(error: unknown, round: number): void {
  const isNamed =
    error instanceof BatonError &&
    (error.code === 'transport.version_mismatch' || error.data['reason'] !== undefined)
  if (!isNamed) throw new Error(`seed ${SEED} round ${round}`, { cause: error })
}

function mutate(random: Random, source: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(source)
  const changes = 1 + randomInt(random, 4)
  for (let i = 0; i < changes; i++) {
    const at = randomInt(random, bytes.length)
    const choice = randomInt(random, 4)
    if (choice === 0) bytes[at] = 0xff
    else if (choice === 1) bytes[at] = (bytes[at] ?? 0) ^ (1 << randomInt(random, 8))
    else bytes[at] = randomInt(random, 256)
  }
  return randomInt(random, 4) === 0 ? bytes.subarray(0, randomInt(random, bytes.length)) : bytes
}

describe('wire under mutated frames', () => {
  it(`decoders - ${FRAMES} frames, seed ${SEED}: only typed refusals, no allocation by length`, () => {
    const random = seededRandom(SEED)
    const sources = samples()
    const limits = batonLimits([...boostrLimits()])
    let refused = 0
    let gatheredMax = 0
    for (let round = 0; round < FRAMES; round++) {
      const decoder: FrameDecoder = new FrameDecoder(limits, { onFrame: decodeAny })
      try {
        for (let i = 0; i < 3; i++) {
          const bytes = mutate(random, sources[randomInt(random, sources.length)] ?? sources[0]!)
          decoder.push(bytes)
          gatheredMax = Math.max(gatheredMax, decoder.gatheredBytes)
        }
      } catch (error) {
        refused += 1
        expectNamed(error, round)
      }
    }
    expect(refused).toBeGreaterThan(0)
    expect(gatheredMax).toBeLessThanOrEqual(64 * 1024)
  })

  it(`roles, handshake, KV layout - ${FRAMES} frames, seed ${SEED}: only typed refusals`, () => {
    const random = seededRandom(SEED)
    const frames = boostrSamples()
    const hello = samples()[1] ?? new Uint8Array(0)
    let refused = 0
    const attempt = (round: number, act: () => void): void => {
      try {
        act()
      } catch (error) {
        refused += 1
        expectNamed(error, round)
      }
    }
    let nodes = boostrNodes()
    for (let round = 0; round < FRAMES; round++) {
      const choice = randomInt(random, 5)
      if (choice === 0) {
        attempt(round, () => decodeKvF32(mutate(random, KV_F32)))
        attempt(round, () => void unwrapKv(mutate(random, frames.at(-1)?.payload ?? KV_F32)))
      } else if (choice === 1) {
        const self = { role: 'worker', software: 'x', capabilities: [], limits: {} } as const
        const handshake = new Handshake({ side: 'acceptor', self, nonce: new Uint8Array(16) })
        const onFrame = (...frame: [number, Uint8Array, number, number]): void =>
          handshake.onFrame(...frame, new FrameWriter())
        const decoder: FrameDecoder = new FrameDecoder(batonLimits(), { onFrame })
        attempt(round, () => decoder.push(mutate(random, hello)))
      } else {
        // A connection that broke the protocol is closed, and its rank may come back.
        if (round % 50 === 0) nodes = boostrNodes()
        const frame = frames[randomInt(random, frames.length)]
        const node = nodes[randomInt(random, nodes.length)]
        const from = randomInt(random, 3)
        if (frame === undefined || node === undefined) continue
        const isCut = randomInt(random, 2) === 0 && frame.payload.length > 0
        const payload = isCut ? mutate(random, frame.payload) : frame.payload
        attempt(round, () => node.receive(from, { tag: frame.tag, payload }))
        if (node instanceof BoostrDecodeWorker) node.step()
        if (round % 7 === 0) node.peerGone(from)
      }
    }
    expect(refused).toBeGreaterThan(0)
  })
})
