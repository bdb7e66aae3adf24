import { describe, expect, it } from 'vitest'

import { BatonError, randomInt, seededRandom } from '../base/index.ts'
import type { Random } from '../base/index.ts'
import { decodeBoostr, decodeKvCacheHeader, encodeBoostr } from './boostr/boostr-message.ts'
import { decodeKvEvents, decodeLoad, encodeKvEvents, encodeLoad } from './fleet-message.ts'
import { FrameDecoder } from './frame-decoder.ts'
import { batonLimits, boostrLimits } from './frame-limits.ts'
import { FrameWriter } from './frame-writer.ts'
import { decodeHello, encodeHello } from './hello.ts'
import {
  decodeKvArena,
  decodeKvChunkHead,
  decodeKvPlaced,
  decodeKvPull,
  decodeKvPullEnd,
  decodeKvRelease,
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
  encodeError,
  forEachPair,
} from './reply-message.ts'
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
    case TAG.KV_PLACED:
      return void decodeKvPlaced(bytes, start, end)
    case TAG.KV_ARENA:
      return void decodeKvArena(bytes, start, end)
    case TAG.KV_CHUNK:
      return void decodeKvChunkHead(bytes.subarray(start, end))
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
  const boostr = encodeBoostr({ kind: 'prefill-request', requestId: 1n, seqLen: 2, decodeRank: 3 })
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
    frame((w) => w.begin(TAG.TOKENS).u32(1).u32(2).end()),
    frame((w) => w.begin(boostr.tag).bytes(boostr.payload).end()),
  ]
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
  it(`decoders - ${FRAMES} frames, seed ${SEED}: only typed refusals, no memory by length`, () => {
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
        const isNamed =
          error instanceof BatonError &&
          (error.code === 'transport.version_mismatch' || error.data['reason'] !== undefined)
        if (!isNamed) throw new Error(`seed ${SEED} round ${round}`, { cause: error })
      }
    }
    expect(refused).toBeGreaterThan(0)
    expect(gatheredMax).toBeLessThanOrEqual(64 * 1024)
  })
})
