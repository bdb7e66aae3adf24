/**
 * The last requests with their phases, for the console, `baton top` and `GET /debug/requests`.
 *
 * Under load it is a sample: at most `ADMITTED_PER_SECOND` new requests are recorded, and the others cost one
 * map lookup per event. The sums cover all requests. Nothing of a prompt or an answer is kept.
 */
import { roundedMs } from '../../base/index.ts'
import type { Clock, WorkerId } from '../../base/index.ts'
import type { Phase } from '../../request/index.ts'
import type {
  FrontendEvent,
  FrontendEventOf,
  FrontendObserver,
  RequestEnd,
  RequestFacts,
} from '../generation/frontend-event.ts'

/** Events that are no step of a request. */
const OUTSIDE = ['faulted', 'backgroundFailed', 'batchGivenUp'] as const
type Outside = (typeof OUTSIDE)[number]

/** One phase event; `request/phase-event.ts` defines what each kind contains. */
export interface LoggedPhase {
  readonly kind: Exclude<FrontendEvent['kind'], 'received' | 'ended' | Outside>
  /** Milliseconds since the arrival. */
  readonly atMs: number
  readonly phase?: Phase
  readonly workerId?: WorkerId
  readonly dpRank?: number
  readonly overlapBlocks?: number
  readonly promptBlocks?: number
  /** Milliseconds of the wait that ended with this event. */
  readonly queuedMs?: number
  /** Milliseconds of the step that ended with this event. */
  readonly elapsedMs?: number
  readonly bytes?: number
  readonly recomputed?: boolean
  readonly promptTokens?: number
  readonly errorCode?: string
  readonly resumedTokens?: number
}

export interface LoggedEnd extends Pick<
  RequestEnd,
  | 'outcome'
  | 'status'
  | 'errorCode'
  | 'durationMs'
  | 'ttftMs'
  | 'itlMs'
  | 'promptTokens'
  | 'completionTokens'
  | 'cachedTokens'
> {
  readonly tenantId?: string | undefined
}

export interface LoggedRequest {
  readonly requestId: string
  readonly model: string
  readonly endpoint: string
  readonly streamed: boolean
  readonly startedEpochMs: number
  readonly phases: readonly LoggedPhase[]
  /** Null: the request is running. */
  readonly end: LoggedEnd | null
}

/** Sums over all requests, including those that are not recorded. */
export interface RequestSums {
  received: number
  succeeded: number
  failed: number
  cancelled: number
  migrated: number
  /** Prompts whose KV a decode worker was to fetch, and how many of them were computed again instead. */
  kvTransfers: number
  kvRecomputed: number
  promptTokens: number
  cachedTokens: number
  completionTokens: number
}

export const SUM_NAMES = [
  'received',
  'succeeded',
  'failed',
  'cancelled',
  'migrated',
  'kvTransfers',
  'kvRecomputed',
  'promptTokens',
  'cachedTokens',
  'completionTokens',
] as const satisfies readonly (keyof RequestSums)[]

/** A request of another frontend, as it announced it. */
interface ForeignEntry {
  readonly record: LoggedRequest
  readonly revision: number
}

interface Entry {
  readonly record: {
    requestId: string
    model: string
    endpoint: string
    streamed: boolean
    startedEpochMs: number
    phases: LoggedPhase[]
    end: LoggedEnd | null
  }
  readonly startedMs: number
  /** The value of the log's change counter when this request changed last. */
  revision: number
}

const KEPT_MAX = 500
const RUNNING_MAX = 2_000
const ADMITTED_PER_SECOND = 50
/** A request that migrates again and again must not fill the memory. */
const PHASES_MAX = 60

function isOutside(event: FrontendEvent): event is FrontendEventOf<Outside> {
  return OUTSIDE.some((kind) => kind === event.kind)
}

export class RequestLog {
  readonly sums = Object.fromEntries(SUM_NAMES.map((name) => [name, 0])) as unknown as RequestSums
  readonly #clock: Clock
  readonly #running = new Map<string, Entry>()
  /** Oldest first. */
  readonly #ended: Entry[] = []
  /** Requests of other frontends, the most recently changed last. */
  readonly #foreign = new Map<string, ForeignEntry>()
  #revision = 0
  #admitted = 0
  #windowMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A counter of changes to recorded requests. */
  get revision(): number {
    return this.#revision
  }

  readonly observe: FrontendObserver = (event, facts) => {
    if (event.kind === 'received') this.#received(event.atMs, facts)
    else if (event.kind === 'ended') this.#endedWith(event, facts.requestId)
    else if (!isOutside(event)) {
      if (event.kind === 'migrated') this.sums.migrated++
      else if (event.kind === 'kvTransferred') this.#transferred(event.recomputed)
      const entry = this.#running.get(facts.requestId)
      if (entry !== undefined) this.#add(entry, event)
    }
  }

  find(requestId: string): LoggedRequest | null {
    const running = this.#running.get(requestId)
    if (running !== undefined) return running.record
    const ended = this.#ended.findLast(({ record }) => record.requestId === requestId)
    return (ended ?? this.#foreign.get(requestId))?.record ?? null
  }

  /** Newest first, running requests before ended ones. */
  latest(limit: number): readonly LoggedRequest[] {
    const foreign = [...this.#foreign.values()].map(({ record }) => record)
    const running = [...this.#running.values()].map(({ record }) => record)
    const ended = this.#ended.slice(-limit).map(({ record }) => record)
    if (foreign.length === 0) {
      return [...running.toReversed().slice(0, limit), ...ended.toReversed()].slice(0, limit)
    }
    return [...running, ...ended, ...foreign]
      .toSorted(
        (a, b) =>
          Number(a.end !== null) - Number(b.end !== null) || b.startedEpochMs - a.startedEpochMs,
      )
      .slice(0, limit)
  }

  /** Requests that have changed since `revision`; `own`: without those of other frontends. */
  changedSince(revision: number, limit: number, whose?: 'own'): readonly LoggedRequest[] {
    const changed = (entry: ForeignEntry): boolean => entry.revision > revision
    const ended = this.#ended.filter(changed)
    const running = [...this.#running.values()].filter(changed)
    const foreign = whose === 'own' ? [] : [...this.#foreign.values()].filter(changed)
    return [...ended, ...foreign, ...running].slice(-limit).map(({ record }) => record)
  }

  /** Records the current state of a request of another frontend. */
  learn(record: LoggedRequest): void {
    const { requestId } = record
    if (this.#running.has(requestId)) return
    this.#foreign.delete(requestId)
    this.#foreign.set(requestId, { record, revision: ++this.#revision })
    if (this.#foreign.size <= KEPT_MAX) return
    const [oldest] = this.#foreign.keys()
    if (oldest !== undefined) this.#foreign.delete(oldest)
  }

  #received(atMs: number, { requestId, model, endpoint, streamed }: RequestFacts): void {
    this.sums.received++
    if (!this.#admits(atMs)) return
    const startedEpochMs = Math.round(this.#clock.epochMs() - (this.#clock.nowMs() - atMs))
    const record = {
      requestId,
      model,
      endpoint,
      streamed,
      startedEpochMs,
      phases: [],
      end: null,
    }
    this.#running.set(requestId, { record, startedMs: atMs, revision: ++this.#revision })
  }

  #admits(nowMs: number): boolean {
    if (nowMs - this.#windowMs >= 1000) {
      this.#windowMs = nowMs
      this.#admitted = 0
    }
    if (this.#admitted >= ADMITTED_PER_SECOND || this.#running.size >= RUNNING_MAX) return false
    this.#admitted++
    return true
  }

  #transferred(isRecomputed: boolean): void {
    this.sums.kvTransfers++
    if (isRecomputed) this.sums.kvRecomputed++
  }

  #add(entry: Entry, event: FrontendEventOf<LoggedPhase['kind']>): void {
    const { phases } = entry.record
    if (phases.length >= PHASES_MAX) return
    const { atMs, ...rest } = event
    phases.push({ ...rest, atMs: roundedMs(atMs - entry.startedMs) })
    entry.revision = ++this.#revision
  }

  #endedWith(event: RequestEnd, requestId: string): void {
    const { sums } = this
    if (event.outcome === 'success') sums.succeeded++
    else if (event.outcome === 'cancelled') sums.cancelled++
    else sums.failed++
    sums.promptTokens += event.promptTokens
    sums.cachedTokens += event.cachedTokens ?? 0
    sums.completionTokens += event.completionTokens
    const entry = this.#running.get(requestId)
    if (entry === undefined) return
    this.#running.delete(requestId)
    const { outcome, status, errorCode, durationMs, ttftMs, itlMs } = event
    const { promptTokens, completionTokens, cachedTokens, tenantId } = event
    entry.record.end = {
      outcome,
      status,
      errorCode,
      durationMs: roundedMs(durationMs),
      ttftMs: ttftMs === undefined ? undefined : roundedMs(ttftMs),
      itlMs: itlMs === undefined ? undefined : roundedMs(itlMs),
      promptTokens,
      completionTokens,
      cachedTokens,
      tenantId,
    }
    entry.revision = ++this.#revision
    this.#ended.push(entry)
    if (this.#ended.length > KEPT_MAX) this.#ended.splice(0, this.#ended.length - KEPT_MAX)
  }
}
