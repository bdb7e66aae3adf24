/**
 * The trace context of a call: a new span in the client's trace or in a new one, and whether it is sampled.
 *
 * Sampling is parent-based: a client's decision is kept, and without one the ratio decides by the trace id, so that
 * every process decides the same. A call that is not sampled has a context too, which tells workers and engines not
 * to sample it either.
 */
import { randomFillSync } from 'node:crypto'

export interface TraceContext {
  readonly traceId: string
  readonly spanId: string
  readonly isSampled: boolean
}

const POOL_BYTES = 4096
const TRACE_ID_BYTES = 16
const SPAN_ID_BYTES = 8
/** The random part of a trace id by the standard: its last 56 bits. */
const RANDOM_DIGITS = 14
const SAMPLED = 1

export class TraceContexts {
  readonly #ratio: number
  readonly #pool = Buffer.alloc(POOL_BYTES)
  #next = POOL_BYTES

  /** `ratio`: the sampled share, 0 to 1, of calls without a client's trace. */
  constructor(ratio: number) {
    this.#ratio = ratio
  }

  /** Returns the `traceparent` of a call. `parent`: the client's, well formed if present. */
  readonly begin = (parent: string | undefined): string => {
    if (parent === undefined) {
      const traceId = this.#hex(TRACE_ID_BYTES)
      return this.#written(traceId, this.#isChosen(traceId))
    }
    const { traceId, isSampled } = parseTraceparent(parent)
    return this.#written(traceId, isSampled)
  }

  #isChosen(traceId: string): boolean {
    if (this.#ratio >= 1) return true
    return parseInt(traceId.slice(-RANDOM_DIGITS), 16) < this.#ratio * 16 ** RANDOM_DIGITS
  }

  #written(traceId: string, isSampled: boolean): string {
    return `00-${traceId}-${this.#hex(SPAN_ID_BYTES)}-${isSampled ? '01' : '00'}`
  }

  /** Never all zeros, which would be an invalid id. */
  #hex(bytes: number): string {
    if (this.#next + bytes > POOL_BYTES) {
      randomFillSync(this.#pool)
      this.#next = 0
    }
    const text = this.#pool.toString('hex', this.#next, this.#next + bytes)
    this.#next += bytes
    return /[^0]/.test(text) ? text : this.#hex(bytes)
  }
}

/** `traceparent` must be well formed. */
export function parseTraceparent(traceparent: string): TraceContext {
  return {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    isSampled: isSampled(traceparent),
  }
}

export function isSampled(traceparent: string): boolean {
  return (parseInt(traceparent.slice(53, 55), 16) & SAMPLED) !== 0
}
