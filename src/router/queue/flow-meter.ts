/**
 * How fast requests come to a pool, how fast they go on to its workers, and whether that can last.
 *
 * A burst that the pool works off is no overload, and neither are a hundred clients that each wait for their answer
 * before they ask again: there as many come as end. Overload is when more came than went on or ended, in two windows of
 * time in a row; it lasts until no more come than do. A window is as long as it takes for some requests to come: a pool
 * that answers one request a second is overloaded by two.
 */
const SPAN_MS = 750
/** Two windows of 12 s: slower than four requests in 12 s is never called overload. */
const SPANS_MAX = 32
/** More than so many times what goes on, and one. */
const EXCESS = 1.2
/** Fewer arrivals in a window say nothing. */
const ARRIVALS_MIN = 4

interface Span {
  arrived: number
  gone: number
  ended: number
}

export class FlowMeter {
  #index = -1
  #now: Span = { arrived: 0, gone: 0, ended: 0 }
  /** Newest first. */
  #past: Span[] = []
  #isOverloaded = false
  /** Spans that the rate is taken from. */
  #spans = 2
  readonly #endedCount: () => number
  /** At the beginning of this span. */
  #endedBefore = 0

  /** `endedCount`: requests of the pool that have ended since ever. */
  constructor(endedCount: () => number = () => 0) {
    this.#endedCount = endedCount
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

  /** Requests that go on, per millisecond; null: not known yet. */
  rate(nowMs: number): number | null {
    this.#turn(nowMs)
    const spans = Math.min(this.#spans, this.#past.length)
    const done = doneIn(this.#sum(0, spans))
    return done === 0 ? null : done / (spans * SPAN_MS)
  }

  /** How many come for each one that goes on. */
  excess(nowMs: number): number {
    this.#turn(nowMs)
    const sum = this.#sum(0, this.#spans)
    return sum.arrived / Math.max(doneIn(sum), 1)
  }

  #turn(nowMs: number): void {
    const index = Math.floor(nowMs / SPAN_MS)
    if (index === this.#index) return
    const ended = this.#endedCount()
    this.#now.ended = ended - this.#endedBefore
    this.#endedBefore = ended
    if (this.#index !== -1) {
      this.#past.unshift(this.#now)
      const skipped = Math.min(index - this.#index - 1, SPANS_MAX)
      for (let i = 0; i < skipped; i++) this.#past.unshift({ arrived: 0, gone: 0, ended: 0 })
    }
    this.#past.length = Math.min(this.#past.length, SPANS_MAX)
    this.#now = { arrived: 0, gone: 0, ended: 0 }
    this.#index = index
    this.#judge()
  }

  #judge(): void {
    const window = this.#window()
    this.#spans = 2 * (window ?? 1)
    const was = this.#isOverloaded
    this.#isOverloaded = false
    if (window === null || this.#past.length < 2 * window) return
    // What has ended is not overload, however much came before.
    const newest = this.#sum(0, Math.ceil(window / 2))
    if (newest.arrived <= doneIn(newest)) return
    this.#isOverloaded = was || this.#hasExcess(window)
  }

  /**
   * In two windows of that length in a row, or in two longer ones: a router whose requests are taken a little too slowly
   * shows it only over many of them, and keeps a queue that grows until then.
   */
  #hasExcess(shortest: number): boolean {
    for (let spans = shortest; 2 * spans <= this.#past.length; spans *= 2) {
      if (isExcess(this.#sum(0, spans)) && isExcess(this.#sum(spans, 2 * spans))) return true
    }
    return false
  }

  /** Spans in which so many came that they say something. */
  #window(): number | null {
    for (let spans = 1, arrived = 0; 2 * spans <= SPANS_MAX; spans++) {
      const span = this.#past[spans - 1]
      if (span === undefined) return null
      arrived += span.arrived
      if (arrived >= ARRIVALS_MIN) return spans
    }
    return null
  }

  #sum(from: number, to: number): Span {
    const sum = { arrived: 0, gone: 0, ended: 0 }
    for (const { arrived, gone, ended } of this.#past.slice(from, to)) {
      sum.arrived += arrived
      sum.gone += gone
      sum.ended += ended
    }
    return sum
  }
}

function isExcess(span: Span): boolean {
  return span.arrived > EXCESS * doneIn(span) + 1
}

/** Where workers have more than they can run, several frontends have sent it: then what ends is the pace. */
function doneIn({ gone, ended }: Span): number {
  return Math.max(gone, ended)
}
