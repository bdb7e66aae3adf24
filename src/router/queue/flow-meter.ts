/**
 * Measures how fast requests arrive at a pool and how fast they are sent to its workers, and detects overload.
 *
 * A burst that the pool works off is no overload, and neither are a hundred clients that each wait for their reply
 * before the next request (a closed loop: arrivals equal completions). Overload means that in three consecutive windows
 * more requests arrived than were sent or completed. Two would not be enough: a burst often falls into two windows. A
 * window is as long as it takes for a few requests to arrive: a pool that serves one request per second is overloaded
 * by two.
 *
 * Several routers that share the workers tell each other what arrives, starts and ends, and each judges the sum. By its
 * own requests alone, one whose requests came later on all workers would seem overloaded, and one that takes the places of
 * those that refuse would not.
 *
 * Overload ends when arrivals no longer exceed completions. While requests wait, this must be true for several
 * windows: at twice the capacity it is often true by chance for one, and until the overload was noticed again the
 * queue would grow without its limit.
 */
const SPAN_MS = 600
/** Number of consecutive windows with excess that are overload. */
const EXCESS_WINDOWS = 3
/** Windows of 12 s: fewer than four requests in 12 s are never called overload. */
const SPANS_MAX = 20 * EXCESS_WINDOWS
/**
 * Overload: arrivals exceed the sent requests by this share of them and one. Where requests have waited long, an excess
 * that is unlikely to be chance is enough (the root of their number): a tenth too many fills a queue as well.
 */
const EXCESS = 0.2
/** Windows without excess after which an overload is over although requests wait. */
const CALM_WINDOWS = 5
/** Fewer arrivals in a window are not significant. */
const ARRIVALS_MIN = 4
/** How often the others are told: much less than a span, so that a burst is within the same spans for all routers. */
const TELL_MS = 100
/** Routers that have told something within this time share the workers. */
const ROUTER_MS = 3000
const ROUTERS_MAX = 256
/** Number of spans over which the own share of the arrivals is judged. */
const SHARE_SPANS = 20

/** Requests of a router within some time. */
export interface Flow {
  readonly arrived: number
  readonly gone: number
  readonly ended: number
}

/** What another router tells. */
export interface ToldFlow extends Flow {
  /** The router, by a number of its own. */
  readonly from: number
}

interface Span {
  arrived: number
  gone: number
  ended: number
  /** The same of the other routers, as far as they tell. */
  readonly others: { arrived: number; gone: number; ended: number }
}

/** What the meter reads of its pool, and whom it tells. */
interface FlowSources {
  /** Requests of this router that have ended, in total. */
  readonly ended: () => number
  /** Requests that are queued now. */
  readonly waiting: () => number
  /** True if requests have waited so long that a small excess counts. */
  readonly waitsLong: (nowMs: number) => boolean
  /** Tells the other routers what has come since the last time. */
  readonly tell: (flow: Flow) => void
}

const NO_SOURCES: FlowSources = {
  ended: () => 0,
  waiting: () => 0,
  waitsLong: () => false,
  tell: () => undefined,
}

export class FlowMeter {
  #index = -1
  #now: Span = newSpan()
  /** Newest first. */
  #past: Span[] = []
  #isOverloaded = false
  /** Number of spans over which the own rate is measured. */
  #spans = EXCESS_WINDOWS
  readonly #sources: FlowSources
  /** Value of `ended` when it was last read. */
  #endedBefore = 0
  #untold = noFlow()
  #toldMs = -Infinity
  /** When each of the other routers has last told something. */
  readonly #heardMs = new Map<number, number>()

  constructor(sources: Partial<FlowSources> = {}) {
    this.#sources = { ...NO_SOURCES, ...sources }
  }

  arrived(nowMs: number): void {
    this.#turn(nowMs)
    this.#now.arrived++
    this.#untold.arrived++
  }

  gone(nowMs: number): void {
    this.#turn(nowMs)
    this.#now.gone++
    this.#untold.gone++
  }

  /** Another router has told its requests. */
  heard({ from, arrived, gone, ended }: ToldFlow, nowMs: number): void {
    this.#turn(nowMs)
    if (this.#heardMs.has(from) || this.#heardMs.size < ROUTERS_MAX) this.#heardMs.set(from, nowMs)
    const { others } = this.#now
    others.arrived += arrived
    others.gone += gone
    others.ended += ended
  }

  /** Number of routers that have requests, including this one. */
  routers(nowMs: number): number {
    this.#turn(nowMs)
    return 1 + this.#heardMs.size
  }

  /** More requests arrive than the workers start, and at this router more than its share of what they start. */
  isOverloaded(nowMs: number): boolean {
    this.#turn(nowMs)
    return this.#isOverloaded && this.#hasShare()
  }

  /** Requests sent per millisecond; null: not known yet. */
  rate(nowMs: number): number | null {
    this.#turn(nowMs)
    const spans = Math.min(this.#spans, this.#past.length)
    const done = doneIn(this.#own(0, spans))
    return done === 0 ? null : done / (spans * SPAN_MS)
  }

  /** An equal part of what all routers send, per millisecond. */
  fairRate(nowMs: number): number {
    this.#turn(nowMs)
    const spans = Math.max(Math.min(this.#spans, this.#past.length), 1)
    return doneIn(this.#all(0, spans)) / (spans * SPAN_MS * (1 + this.#heardMs.size))
  }

  /** Arrivals per request sent, at all routers. */
  excess(nowMs: number): number {
    this.#turn(nowMs)
    const sum = this.#all(0, this.#spans)
    return sum.arrived / Math.max(doneIn(sum), 1)
  }

  #turn(nowMs: number): void {
    if (nowMs - this.#toldMs >= TELL_MS) this.#tell(nowMs)
    const index = Math.floor(nowMs / SPAN_MS)
    if (index === this.#index) return
    if (this.#index !== -1) {
      this.#countEnded()
      this.#past.unshift(this.#now)
      const skipped = Math.min(index - this.#index - 1, SPANS_MAX)
      for (let i = 0; i < skipped; i++) this.#past.unshift(newSpan())
    }
    this.#past.length = Math.min(this.#past.length, SPANS_MAX)
    this.#now = newSpan()
    this.#index = index
    for (const [from, heardMs] of this.#heardMs) {
      if (nowMs - heardMs > ROUTER_MS) this.#heardMs.delete(from)
    }
    this.#judge(nowMs)
  }

  #countEnded(): void {
    const ended = this.#sources.ended() - this.#endedBefore
    this.#endedBefore += ended
    this.#now.ended += ended
    this.#untold.ended += ended
  }

  #tell(nowMs: number): void {
    this.#countEnded()
    this.#toldMs = nowMs
    const { arrived, gone, ended } = this.#untold
    if (arrived + gone + ended === 0) return
    this.#sources.tell(this.#untold)
    this.#untold = noFlow()
  }

  #judge(nowMs: number): void {
    this.#spans = EXCESS_WINDOWS * (this.#window((span) => span.arrived) ?? 1)
    const window = this.#window((span) => span.arrived + span.others.arrived)
    const was = this.#isOverloaded
    this.#isOverloaded = false
    if (window === null || this.#past.length < EXCESS_WINDOWS * window) return
    if (this.#isCalm(Math.ceil(window / 2))) {
      if (!was || this.#sources.waiting() === 0 || this.#isCalm(CALM_WINDOWS * window)) return
    }
    this.#isOverloaded = was || this.#hasExcess(window, this.#sources.waitsLong(nowMs))
  }

  #hasShare(): boolean {
    if (this.#heardMs.size === 0) return true
    const { arrived } = this.#own(0, SHARE_SPANS)
    return arrived > doneIn(this.#all(0, SHARE_SPANS)) / (1 + this.#heardMs.size)
  }

  /** Whether the newest arrivals do not exceed completions, however many came before. */
  #isCalm(spans: number): boolean {
    const newest = this.#all(0, spans)
    return newest.arrived <= doneIn(newest)
  }

  /**
   * True if there was excess in consecutive windows of that length or of a longer one. A small excess is significant
   * only over many requests; until it is detected the queue keeps growing.
   */
  #hasExcess(shortest: number, waitsLong: boolean): boolean {
    for (let spans = shortest; EXCESS_WINDOWS * spans <= this.#past.length; spans *= 2) {
      if (this.#hasExcessInAll(spans, waitsLong)) return true
    }
    return false
  }

  #hasExcessInAll(spans: number, waitsLong: boolean): boolean {
    for (let from = 0; from < EXCESS_WINDOWS * spans; from += spans) {
      if (!isExcess(this.#all(from, from + spans), waitsLong)) return false
    }
    return true
  }

  /** The number of spans with enough arrivals to be significant. */
  #window(arrivedIn: (span: Span) => number): number | null {
    for (let spans = 1, arrived = 0; EXCESS_WINDOWS * spans <= SPANS_MAX; spans++) {
      const span = this.#past[spans - 1]
      if (span === undefined) return null
      arrived += arrivedIn(span)
      if (arrived >= ARRIVALS_MIN) return spans
    }
    return null
  }

  #own(from: number, to: number): Flow {
    return sumOf(this.#past.slice(from, to))
  }

  #all(from: number, to: number): Flow {
    return sumOf(this.#past.slice(from, to).flatMap((span) => [span, span.others]))
  }
}

const noFlow = () => ({ arrived: 0, gone: 0, ended: 0 })
const newSpan = (): Span => ({ ...noFlow(), others: noFlow() })

function sumOf(flows: readonly Flow[]): Flow {
  const sum = noFlow()
  for (const { arrived, gone, ended } of flows) {
    sum.arrived += arrived
    sum.gone += gone
    sum.ended += ended
  }
  return sum
}

function isExcess(flow: Flow, waitsLong: boolean): boolean {
  const done = doneIn(flow)
  const chance = waitsLong ? Math.min(EXCESS * done, Math.sqrt(done)) : EXCESS * done
  return flow.arrived > done + chance + 1
}

/** If several frontends have sent more than the workers can run, completions are the true rate. */
function doneIn({ gone, ended }: Flow): number {
  return Math.max(gone, ended)
}
