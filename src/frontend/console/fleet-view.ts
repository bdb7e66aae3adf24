/**
 * The fleet as one value for display: models, workers by role, their load, and what is wrong.
 */
import type { ErrorCode } from '../../base/index.ts'
import { describeDifferences, modeName, upstreamUrl } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { PoolStatus, RankStatus } from '../../router/index.ts'
import type { FleetNote } from '../models/fleet-notes.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import type { ServedModel } from '../models/served-model.ts'
import type { RequestSums } from './request-log.ts'

export interface RankView extends Pick<
  RankStatus,
  | 'dpRank'
  | 'activeRequests'
  | 'activePrefillTokens'
  | 'activeDecodeBlocks'
  | 'reportedRequests'
  | 'reportedQueued'
  | 'reportedBlocks'
  | 'totalBlocks'
  | 'full'
  | 'overloaded'
  | 'kvEventsSeen'
  | 'promptsPlaced'
> {}

export interface WorkerView {
  readonly workerId: string
  readonly role: string
  readonly engine: string
  readonly host: string
  readonly port: number
  /** The address of the foreign server that the worker represents. */
  readonly upstream?: string
  readonly pid?: number
  readonly version: string
  readonly checksum?: string
  /** `unreachable`: there is no connection. `refused`: the worker differs from the others of the model. */
  readonly state: 'serving' | 'unreachable' | 'refused'
  readonly reason?: string
  /** The error code of `reason`. Absent: none yet, or the answer is of an older frontend. */
  readonly code?: ErrorCode
  /** By how much its clock is at least ahead of the frontend's, when it connected. Absent: it may be right. */
  readonly clockOffsetMs?: number
  readonly ranks: readonly RankView[]
}

export interface PoolView extends Pick<
  PoolStatus,
  | 'workers'
  | 'queuedRequests'
  | 'queuedPromptTokens'
  | 'activeRequests'
  | 'decisions'
  | 'refusals'
  | 'mode'
  | 'blockSize'
  | 'usesKvEvents'
  | 'kvEventWorkers'
  | 'kvEventWorkersExpected'
  | 'kvEventWorkersSilent'
  | 'indexBlocks'
  | 'indexBytes'
> {
  /**
   * KV transfers that a decode worker used, and those that it received but did not use, as far as engines
   * report it.
   */
  readonly kvMoved: number
  readonly kvNotMoved: number
}

export interface ModelView {
  readonly name: string
  readonly ready: boolean
  readonly reason?: string
  readonly warnings: readonly string[]
  readonly disaggregation: {
    readonly state: string
    readonly requests: number
    readonly disaggregated: number
  }
  readonly prefill: PoolView
  readonly decode: PoolView
  readonly workers: readonly WorkerView[]
  /** Number of workers beyond those in the list. */
  readonly workersNotListed: number
}

export interface FleetView {
  readonly version: string
  readonly epochMs: number
  /** State of the frontend that answers; the lengths of router queues are its own too. */
  readonly draining: boolean
  /** Number of frontends included in `requestsInFlight` and `sums`, this one included. */
  readonly frontends: number
  readonly requestsInFlight: number
  /** Null: discovery is reachable. */
  readonly discoveryFault: string | null
  /** Missing parts of the fleet. Absent: the answer is of an older frontend. */
  readonly notes?: readonly FleetNote[]
  readonly sums: RequestSums
  readonly models: readonly ModelView[]
}

interface FleetFacts {
  readonly version: string
  readonly epochMs: number
  readonly draining: boolean
  readonly frontends: number
  readonly requestsInFlight: number
  readonly sums: RequestSums
}

/** Per model; the console shows larger numbers as sums. */
const WORKERS_MAX = 1_000

export function fleetView(registry: ModelRegistry, facts: FleetFacts): FleetView {
  return {
    ...facts,
    sums: { ...facts.sums },
    discoveryFault: registry.discovery.fault?.why ?? null,
    notes: registry.notes.all,
    models: registry.models.map(modelView),
  }
}

function modelView(model: ServedModel): ModelView {
  const status = model.router.status()
  const serving = model.reachable
  const others = otherWorkers(model)
  // With ten thousand workers only the listed ones are converted.
  const listed = serving.slice(0, Math.max(0, WORKERS_MAX - others.length))
  const ranks = new Map<string, RankView[]>(listed.map(({ workerId }) => [workerId, []]))
  for (const { ranks: ofPool } of [status.prefill, status.decode]) {
    for (const rank of ofPool) ranks.get(rank.workerId)?.push(rankView(rank))
  }
  const all = [...servingWorkers(model, listed, ranks), ...others]
  const { state, requests, disaggregated } = status.disaggregation
  return {
    name: model.name,
    ready: model.canAnswer,
    ...(model.canAnswer ? {} : { reason: model.notReadyReason() }),
    warnings: status.warnings,
    disaggregation: { state, requests, disaggregated },
    prefill: poolView(status.prefill),
    decode: poolView(status.decode),
    workers: all.slice(0, WORKERS_MAX),
    workersNotListed: Math.max(0, serving.length + others.length - WORKERS_MAX),
  }
}

/** In the order of a request's path; workers of one role stay in the order in which they joined. */
const ROLES = ['prefill', 'aggregated', 'decode']

function servingWorkers(
  model: ServedModel,
  cards: readonly WorkerCard[],
  ranks: ReadonlyMap<string, readonly RankView[]>,
): WorkerView[] {
  const views = cards.map((card): WorkerView => {
    const clockOffsetMs = model.clockOffsetMs(card.workerId)
    return {
      ...cardView(card),
      state: 'serving',
      ...(clockOffsetMs === 0 ? {} : { clockOffsetMs }),
      ranks: ranks.get(card.workerId) ?? [],
    }
  })
  return views.toSorted((one, other) => ROLES.indexOf(one.role) - ROLES.indexOf(other.role))
}

function otherWorkers(model: ServedModel): WorkerView[] {
  const unreachable = model.unreachable.map(({ card, fault }): WorkerView => ({
    ...cardView(card),
    state: 'unreachable',
    reason: fault?.message ?? 'is being connected',
    ...(fault === null ? {} : { code: fault.code }),
    ranks: [],
  }))
  const refused = model.refused.map(({ card, differences }): WorkerView => ({
    ...cardView(card),
    state: 'refused',
    reason: `differs from the others: ${describeDifferences(differences)}`,
    code: 'backend.worker_differs',
    ranks: [],
  }))
  return [...unreachable, ...refused]
}

function cardView(card: WorkerCard): Omit<WorkerView, 'state' | 'ranks'> {
  const { workerId, mode, engineName, host, port, pid, version, agreement } = card
  const upstream = upstreamUrl(card)
  return {
    workerId,
    role: modeName(mode),
    engine: engineName,
    host,
    port,
    ...(upstream === null ? {} : { upstream }),
    ...(pid === undefined ? {} : { pid }),
    version,
    ...(agreement === undefined ? {} : { checksum: agreement.checksum }),
  }
}

function rankView(rank: RankStatus): RankView {
  const { dpRank, activeRequests, activePrefillTokens, activeDecodeBlocks } = rank
  const { reportedRequests, reportedQueued, reportedBlocks, totalBlocks } = rank
  const { full, overloaded, kvEventsSeen, promptsPlaced } = rank
  return {
    dpRank,
    activeRequests,
    activePrefillTokens: Math.round(activePrefillTokens),
    activeDecodeBlocks: Math.round(activeDecodeBlocks),
    reportedRequests,
    reportedQueued,
    reportedBlocks,
    totalBlocks,
    full,
    overloaded,
    kvEventsSeen,
    promptsPlaced,
  }
}

function poolView(pool: PoolStatus): PoolView {
  const { workers, queuedRequests, queuedPromptTokens, activeRequests, decisions, refusals } = pool
  const { mode, blockSize, usesKvEvents } = pool
  const { kvEventWorkers, kvEventWorkersExpected, kvEventWorkersSilent } = pool
  const { indexBlocks, indexBytes, answers } = pool
  return {
    workers,
    queuedRequests,
    queuedPromptTokens,
    activeRequests,
    decisions,
    refusals,
    mode,
    blockSize,
    usesKvEvents,
    kvEventWorkers,
    kvEventWorkersExpected,
    kvEventWorkersSilent,
    indexBlocks,
    indexBytes,
    kvMoved: answers.kvMoved,
    kvNotMoved: answers.kvNotMoved,
  }
}
