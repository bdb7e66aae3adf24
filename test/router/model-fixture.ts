/** The router of one model over a scripted plane, for tests that span several of its parts. */
import { seededRandom } from '../../src/base/index.ts'
import { hashBlocks } from '../../src/kv/index.ts'
import type { KvEventBatch } from '../../src/kv/index.ts'
import type { KvOffer, RoutingHints, WorkerCard } from '../../src/request/index.ts'
import { createModelRouter } from '../../src/router/index.ts'
import type { ModelRouterOptions, PeerNews, RouterOptions } from '../../src/router/index.ts'
import { ManualClock } from './manual-clock.ts'
import { card, RecordingSink, request, ScriptedPlane } from './scripted-plane.ts'

export function buildModel(
  cards: readonly WorkerCard[],
  config: RouterOptions = {},
  onPeerNews?: (news: PeerNews) => void,
  more: Partial<ModelRouterOptions> = {},
) {
  const plane = new ScriptedPlane()
  const clock = new ManualClock()
  const router = createModelRouter({
    plane,
    clock,
    random: seededRandom(1),
    config,
    ...(onPeerNews && { onPeerNews }),
    ...more,
  })
  for (const worker of cards) router.fleet.workerJoined(worker)
  const send = (routing: RoutingHints = {}, tokens: readonly number[] | number = 16) => {
    const sink = new RecordingSink()
    const sent = request(tokens, routing)
    const handle = router.service.send(sent, sink)
    return { sink, sent, handle }
  }
  const load = () => {
    const { prefill, decode } = router.status()
    return [...prefill.ranks, ...decode.ranks].reduce(
      (sum, rank) => sum + rank.activeRequests + rank.activeDecodeBlocks + rank.activePrefillTokens,
      0,
    )
  }
  return { plane, clock, router, send, load }
}

export const PD = [card(1, 'prefill'), card(2, 'decode')]
export const BOOTSTRAP = card(1, 'prefill', { engine: { bootstrapHost: 'p', bootstrapPort: 9 } })

/** An offer for one block of KV that outlives any test. */
export function offerOf(offerId: string): KvOffer {
  return {
    offerId,
    host: 'p',
    port: 9,
    fingerprint: 'f',
    blockTokens: 4,
    tokenCount: 4,
    blockKeys: Uint32Array.of(1, 2),
    kvBytes: 8,
    expiresInMs: 60_000,
  }
}

/** A device event that stores the blocks of tokens 0, 1, 2 … */
export function stored(tokens: number): KvEventBatch {
  return storedTokens(Array.from({ length: tokens }, (_, i) => i))
}

/** A prompt of consecutive token ids from `first` on. */
export function tokensFrom(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => first + i)
}

export function storedTokens(tokens: readonly number[], dpRank = 0): KvEventBatch {
  const hashes = hashBlocks(Uint32Array.from(tokens), 4)
  return {
    sequence: 0,
    dpRank,
    events: [
      {
        kind: 'stored',
        parent: null,
        hashes: hashes.sequence,
        localHashes: hashes.local,
        tier: 'device',
      },
    ],
  }
}
