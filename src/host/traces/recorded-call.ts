/**
 * The events of one call that is traced, in order, and what an event means among the others. Bounded: a call that
 * migrates without end does not fill the memory.
 */
import type { FrontendEvent, FrontendEventOf, RequestFacts } from '../../frontend/index.ts'
import type { DecisionRecord } from '../../router/index.ts'

const EVENTS_MAX = 512

type Routed = FrontendEventOf<'routed'>

export class RecordedCall {
  readonly facts: RequestFacts
  readonly #events: FrontendEvent[] = []
  readonly #decisions: () => readonly DecisionRecord[]
  #unclaimed: DecisionRecord[] | null = null
  #dropped = 0

  /** `decisions`: asked for once, and only when a span needs one. */
  constructor(facts: RequestFacts, decisions: () => readonly DecisionRecord[]) {
    this.facts = facts
    this.#decisions = decisions
  }

  get events(): readonly FrontendEvent[] {
    return this.#events
  }

  /** Events that there was no room for. */
  get dropped(): number {
    return this.#dropped
  }

  /** Whether tokens follow the prompt. */
  get generates(): boolean {
    return this.facts.endpoint !== 'embeddings'
  }

  add(event: FrontendEvent): void {
    if (this.#events.length < EVENTS_MAX || event.kind === 'ended') this.#events.push(event)
    else this.#dropped++
  }

  /** When the leg of this event was over: at the next migration, or at the end. */
  endMsAfter(event: FrontendEvent): number {
    const at = this.#events.indexOf(event)
    const end = this.#events.find(
      ({ kind }, index) => index > at && (kind === 'migrated' || kind === 'ended'),
    )
    return end !== undefined && 'atMs' in end ? end.atMs : timeOf(event)
  }

  /** How long the KV transfer took that this leg began with. */
  transferMsBefore(event: FrontendEventOf<'decodeStarted'>): number {
    const previous = this.#events[this.#events.indexOf(event) - 1]
    const isOurs = previous?.kind === 'kvTransferred' && previous.workerId === event.workerId
    return isOurs ? previous.elapsedMs : 0
  }

  /** Each decision is of one event; undefined when the router has forgotten it. To be asked in the order of the events. */
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
