/**
 * Measures how fast requests arrive at a pool and how fast they are sent to its workers, and detects overload.
 *
 * A burst that the pool works off is no overload, and neither are a hundred clients that each wait for their reply
 * before the next request (a closed loop: arrivals equal completions). Overload means that in three consecutive windows
 * more requests arrived than were sent or completed. Two would not be enough: a burst often falls into two windows. A
 * window is as long as it takes for a few requests to arrive: a pool that serves one request per second is overloaded
 * by two.
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
/** Overload: arrivals exceed this many times the sent requests plus one. */
const EXCESS = 1.2
/** Windows without excess after which an overload is over although requests wait. */
const CALM_WINDOWS = 5
/** Fewer arrivals in a window are not significant. */
const ARRIVALS_MIN = 4

interface Span {
  arrived: number
  gone: number
  ended: number
  /** Own share of all that ended: as many as are expected of the own requests inside the workers. */
  due: number
}

/** What the meter reads of its pool. */
export interface FlowSources {
  /** Requests of this router that have ended, in total. */
  readonly ended: () => number
  /** Requests that are queued now. */
  readonly waiting: () => number
  /** Requests of other routers that have ended, in total, as far as they tell. */
  readonly othersEnded: () => number
  /** Share of the requests inside the workers that are from this router. */
  readonly insideShare: () => number
}

const NO_SOURCES: FlowSources = {
  ended: () => 0,
  waiting: () => 0,
  othersEnded: () => 0,
  insideShare: () => 1,
}

export class FlowMeter {
  #index = -1
  #now: Span = { arrived: 0, gone: 0, ended: 0, due: 0 }
  /** Newest first. */
  #past: Span[] = []
  #isOverloaded = false
  /** Number of spans over which the rate is measured. */
  #spans = EXCESS_WINDOWS
  readonly #sources: FlowSources
  /** Values of `ended` and `othersEnded` at the start of this span. */
  #endedBefore = 0
  #othersEndedBefore = 0

  constructor(sources: Partial<FlowSources> = {}) {
    this.#sources = { ...NO_SOURCES, ...sources }
  }

  arrived(nowMs: number): void {
    this.#turn(nowMs)
    this.#now.arrived++
  }

  gone(nowMs: number): void {
    this.#turn(nowMs)
    this.#now.gone++
  }

  isOverloaded(nowMs: number): boolean {
    this.#turn(nowMs)
    return this.#isOverloaded
  }

  /** Requests sent per millisecond; null: not known yet. */
  rate(nowMs: number): number | null {
    this.#turn(nowMs)
    const spans = Math.min(this.#spans, this.#past.length)
    const done = doneIn(this.#sum(0, spans))
    return done === 0 ? null : done / (spans * SPAN_MS)
  }

  /** Arrivals per request sent. */
  excess(nowMs: number): number {
    this.#turn(nowMs)
    const sum = this.#sum(0, this.#spans)
    return sum.arrived / Math.max(doneIn(sum), 1)
  }

  #turn(nowMs: number): void {
    const index = Math.floor(nowMs / SPAN_MS)
    if (index === this.#index) return
    this.#countEnded()
    if (this.#index !== -1) {
      this.#past.unshift(this.#now)
      const skipped = Math.min(index - this.#index - 1, SPANS_MAX)
      for (let i = 0; i < skipped; i++)
        this.#past.unshift({ arrived: 0, gone: 0, ended: 0, due: 0 })
    }
    this.#past.length = Math.min(this.#past.length, SPANS_MAX)
    this.#now = { arrived: 0, gone: 0, ended: 0, due: 0 }
    this.#index = index
    this.#judge()
  }

  #countEnded(): void {
    const { ended, othersEnded, insideShare } = this.#sources
    const own = ended() - this.#endedBefore
    const others = othersEnded() - this.#othersEndedBefore
    this.#endedBefore += own
    this.#othersEndedBefore += others
    this.#now.ended = own
    this.#now.due = others === 0 ? 0 : (own + others) * insideShare()
  }

  #judge(): void {
    const window = this.#window()
    this.#spans = EXCESS_WINDOWS * (window ?? 1)
    const was = this.#isOverloaded
    this.#isOverloaded = false
    if (window === null || this.#past.length < EXCESS_WINDOWS * window) return
    if (this.#isCalm(Math.ceil(window / 2))) {
      if (!was || this.#sources.waiting() === 0 || this.#isCalm(CALM_WINDOWS * window)) return
    }
    this.#isOverloaded = was || this.#hasExcess(window)
  }

  /** Whether the newest arrivals do not exceed completions, however many came before. */
  #isCalm(spans: number): boolean {
    const newest = this.#sum(0, spans)
    return newest.arrived <= doneIn(newest)
  }

  /**
   * True if there was excess in consecutive windows of that length or of a longer one. A small excess is significant
   * only over many requests; until it is detected the queue keeps growing.
   */
  #hasExcess(shortest: number): boolean {
    for (let spans = shortest; EXCESS_WINDOWS * spans <= this.#past.length; spans *= 2) {
      if (this.#hasExcessInAll(spans)) return true
    }
    return false
  }

  #hasExcessInAll(spans: number): boolean {
    for (let from = 0; from < EXCESS_WINDOWS * spans; from += spans) {
      if (!isExcess(this.#sum(from, from + spans))) return false
    }
    return !this.#isPassedOver(2 * spans)
  }

  /**
   * Where another router's requests came first on all workers, only these end for a while, and their clients may send the
   * next ones here. That is no excess as long as no more arrive than are due.
   */
  #isPassedOver(spans: number): boolean {
    const { arrived, due } = this.#sum(0, spans)
    return arrived <= EXCESS * due + 1
  }

  /** The number of spans with enough arrivals to be significant. */
  #window(): number | null {
    for (let spans = 1, arrived = 0; EXCESS_WINDOWS * spans <= SPANS_MAX; spans++) {
      const span = this.#past[spans - 1]
      if (span === undefined) return null
      arrived += span.arrived
      if (arrived >= ARRIVALS_MIN) return spans
    }
    return null
  }

  #sum(from: number, to: number): Span {
    const sum = { arrived: 0, gone: 0, ended: 0, due: 0 }
    for (const { arrived, gone, ended, due } of this.#past.slice(from, to)) {
      sum.arrived += arrived
      sum.gone += gone
      sum.ended += ended
      sum.due += due
    }
    return sum
  }
}

function isExcess(span: Span): boolean {
  return span.arrived > EXCESS * doneIn(span) + 1
}

/** If several frontends have sent more than the workers can run, completions are the true rate. */
function doneIn({ gone, ended }: Span): number {
  return Math.max(gone, ended)
}
