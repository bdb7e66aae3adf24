/**
 * The events of one traced call in order, and lookups among them. Bounded, so that a call that migrates without end
 * does not fill the memory.
 */
import type { FrontendEvent, FrontendEventOf, RequestFacts } from '../../frontend/index.ts'
import type { DecisionRecord } from '../../router/index.ts'

const EVENTS_MAX = 512

/** On the clock of the events. */
export interface Times {
  readonly fromMs: number
  readonly toMs: number
}

type Routed = FrontendEventOf<'routed'>

export class RecordedCall {
  readonly facts: RequestFacts
  readonly #events: FrontendEvent[] = []
  readonly #decisions: () => readonly DecisionRecord[]
  #unclaimed: DecisionRecord[] | null = null
  #dropped = 0

  /** `decisions` is called once, when the first span needs one. */
  constructor(facts: RequestFacts, decisions: () => readonly DecisionRecord[]) {
    this.facts = facts
    this.#decisions = decisions
  }

  get events(): readonly FrontendEvent[] {
    return this.#events
  }

  /** Number of events that did not fit. */
  get dropped(): number {
    return this.#dropped
  }

  /** True when tokens follow the prompt. */
  get generates(): boolean {
    return this.facts.endpoint !== 'embeddings'
  }

  add(event: FrontendEvent): void {
    if (this.#events.length < EVENTS_MAX || event.kind === 'ended') this.#events.push(event)
    else this.#dropped++
  }

  /** The end of this event's leg: the next migration, or the end of the call. */
  endMsAfter(event: FrontendEvent): number {
    const at = this.#events.indexOf(event)
    const end = this.#events.find(
      ({ kind }, index) => index > at && (kind === 'migrated' || kind === 'ended'),
    )
    return end !== undefined && 'atMs' in end ? end.atMs : timeOf(event)
  }

  /** From this event to the end of its leg, if the leg ended before anything else happened; else undefined. */
  untilCut(event: FrontendEvent): Times | undefined {
    const next = this.#events[this.#events.indexOf(event) + 1]
    // A request that was forwarded, or whose worker reports no phases, can succeed without further events.
    const isCut =
      next?.kind === 'migrated' || (next?.kind === 'ended' && next.outcome !== 'success')
    return isCut ? { fromMs: timeOf(event), toMs: next.atMs } : undefined
  }

  /** The duration of the KV transfer at the start of this leg. */
  transferMsBefore(event: FrontendEventOf<'decodeStarted'>): number {
    const previous = this.#events[this.#events.indexOf(event) - 1]
    const isOurs = previous?.kind === 'kvTransferred' && previous.workerId === event.workerId
    return isOurs ? previous.elapsedMs : 0
  }

  /**
   * Each decision belongs to one event; undefined when the router has dropped it. Call it in the order of the
   * events.
   */
  decisionOf(event: Routed): DecisionRecord | undefined {
    this.#unclaimed ??= [...this.#decisions()]
    const at = this.#unclaimed.findIndex(
      ({ phase, outcome }) =>
        phase === event.phase &&
        outcome.kind === 'routed' &&
        outcome.workerId === event.workerId &&
        (event.dpRank === undefined || outcome.dpRank === event.dpRank),
    )
    return at === -1 ? undefined : this.#unclaimed.splice(at, 1)[0]
  }
}

function timeOf(event: FrontendEvent): number {
  return 'atMs' in event ? event.atMs : 0
}
