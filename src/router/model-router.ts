/**
 * The router of one model, assembled: two pools, a worker router for each, and the prefill router on top.
 *
 * The mode in a worker's card selects the pool: `agg` and `decode` belong to the decode pool, `prefill` to the
 * prefill pool.
 */
import type { BatonError, Clock, Random } from '../base/index.ts'
import { goalsOfFirst } from '../request/index.ts'
import type { LatencyGoals, RequestPlane, RequestService, RoutingHints } from '../request/index.ts'
import type { BusyThresholds } from './configuration/busy-threshold.ts'
import { DecisionRing } from './decide/decision-record.ts'
import type { DecisionRecord } from './decide/decision-record.ts'
import { goalsOfClass } from './decide/goals-left.ts'
import { FleetSplit } from './fleet-split.ts'
import type { FleetObserver } from './load/fleet-observer.ts'
import { KvRouter } from './decide/kv-router.ts'
import { PrefillRouter } from './legs/prefill-router.ts'
import { PromptHasher } from './load/prompt-hasher.ts'
import { completeRouterConfig } from './configuration/router-config.ts'
import type { RouterOptions } from './configuration/router-config.ts'
import type { RouterStatus } from './ranks/router-status.ts'
import { selfCheck } from './load/self-check.ts'
import { toldSequence } from './load/peer-news.ts'
import type { PeerNews, PeerPool } from './load/peer-news.ts'
import { WorkerRouter } from './legs/worker-router.ts'

export interface ModelRouterOptions {
  readonly plane: RequestPlane
  readonly clock: Clock
  readonly random: Random
  readonly config?: RouterOptions
  /** Called with news for the routers of the same model in other frontends. */
  readonly onPeerNews?: (news: PeerNews) => void
  /** False if there are no other frontends: then no news is assembled. */
  readonly hasPeers?: () => boolean
  /** False: no other frontend is known, so messages about every prompt are not sent. Default: like `hasPeers`. */
  readonly listens?: () => boolean
}

export interface ModelRouter {
  readonly service: RequestService
  readonly fleet: FleetObserver
  /** True while requests wait in a queue, or for the prefill worker that computes their prompt. */
  hasWaiting(): boolean
  /** Some worker can serve a request; with `enforceDisaggregation` a prefill worker is required as well. */
  canServeRequests(): boolean
  /**
   * The refusal that a request with these hints would get now, whatever its prompt, because the queue is full; null:
   * send it. Lets the caller skip tokenization.
   */
  refusalAtOnce(routing: RoutingHints): BatonError | null
  /** The latency goals: the request's own, else those of its class; undefined if there are none. */
  goalsOf(routing: RoutingHints): LatencyGoals | undefined
  /** All decisions of one request, oldest first; null if it is not (or no longer) known. */
  explain(requestId: string): readonly DecisionRecord[] | null
  status(): RouterStatus
  busyThresholds(): BusyThresholds
  /** Overwrites only the fields that are given; returns the resulting thresholds. */
  setBusyThresholds(update: BusyThresholds): BusyThresholds
  /** Applies news from a router of the same model in another frontend. */
  learn(news: PeerNews): void
  /** Repeats the current news for a frontend that joined late. */
  tellPeers(): void
  /** Ends queued requests with `backend.worker_unavailable`; running requests continue. */
  close(): void
}

/** Routers are told apart by a random number below this. */
const ROUTER_IDS = 2 ** 48

export function createModelRouter(options: ModelRouterOptions): ModelRouter {
  const { plane, clock, random } = options
  const config = completeRouterConfig(options.config)
  const ring = new DecisionRing(config.explainRecords)
  const hasher = new PromptHasher()
  // Chosen when it is needed: a router without peers makes the same random choices as before.
  let self: number | null = null
  const { hasPeers, listens = hasPeers, onPeerNews } = options
  const createPool = (pool: PeerPool, next?: KvRouter): WorkerRouter =>
    new WorkerRouter({
      router: new KvRouter({
        config,
        clock,
        random,
        hasher,
        ring,
        ...(onPeerNews && {
          onRouted: ({ workerId, dpRank }, sequence) => {
            if (hasPeers?.() === false) return
            onPeerNews({
              kind: 'routed',
              pool,
              workerId,
              dpRank,
              sequence: toldSequence(sequence),
            })
          },
          onPrompt: (news) => {
            if (listens?.() !== false) onPeerNews({ ...news, pool })
          },
        }),
      }),
      plane,
      clock,
      ...(next && { next }),
      ...(onPeerNews && {
        onSession: (sessionId, target, idleMs) =>
          onPeerNews({ kind: 'session', pool, sessionId, target, idleMs }),
        onFlow: (flow) => {
          if (listens?.() === false) return
          self ??= Math.floor(random.next() * ROUTER_IDS)
          onPeerNews({ kind: 'flow', pool, from: self, ...flow })
        },
      }),
    })
  const decode = createPool('decode')
  const prefill = createPool('prefill', decode.router)
  const service = new PrefillRouter({ prefill, decode, clock, random, config })
  return {
    service,
    fleet: new FleetSplit(prefill.router, decode.router),
    hasWaiting: () => prefill.hasWaiting || decode.hasWaiting,
    canServeRequests: () => service.canServeRequests(),
    refusalAtOnce: (routing) => service.refusalAtOnce(routing),
    goalsOf: ({ goals, policyClass }) =>
      goalsOfFirst(goals, goalsOfClass(config.policyClasses, policyClass, null)),
    explain: (requestId) => ring.get(requestId),
    status: () =>
      selfCheck({
        prefill: prefill.status(),
        decode: decode.status(),
        disaggregation: service.status(),
        sessions: prefill.sessionCount + decode.sessionCount,
      }),
    busyThresholds: () => decode.router.capacity.judge.busy,
    setBusyThresholds: (update) => {
      prefill.router.capacity.judge.setBusy(update)
      return decode.router.capacity.judge.setBusy(update)
    },
    learn: (news) => {
      const pool = news.pool === 'prefill' ? prefill : decode
      if (news.kind === 'session') pool.learnSession(news.sessionId, news.target, news.idleMs)
      else if (news.kind === 'flow') pool.learnFlow(news)
      else if (news.kind !== 'routed') pool.router.peers.learn(news)
      else pool.router.learnRouted(news.workerId, news.dpRank, Uint32Array.from(news.sequence))
    },
    tellPeers: () => {
      prefill.tellSessions()
      decode.tellSessions()
    },
    close: () => {
      prefill.close()
      decode.close()
    },
  }
}
