/**
 * The result of every request of a run, in columns: a run of a million requests is a few arrays.
 */
import type { ErrorCode, WorkerId } from '../../base/index.ts'
import type { RoutedEvent } from '../../request/index.ts'
import { Distribution } from './distribution.ts'

interface RequestEnd {
  /** Null: it succeeded. */
  readonly code: ErrorCode | null
  readonly atMs: number
  readonly tokens: number
  readonly lastTokenMs: number
  readonly cachedTokens: number
}

export interface RequestRow {
  readonly index: number
  readonly atMs: number
  /** NaN: there was no token. */
  readonly ttftMs: number
  readonly e2eMs: number
  readonly tokens: number
  /** Mean gap between tokens; 0 with fewer than two. */
  readonly tpotMs: number
  readonly cachedTokens: number
  readonly code: ErrorCode | null
  readonly prefillWorker: WorkerId | null
  readonly decodeWorker: WorkerId | null
  readonly queuedMs: number
}

export class RequestLog {
  readonly itl = new Distribution()
  readonly failed: Record<string, number> = {}
  endedCount = 0
  disaggregated = 0
  /** Of the earliest request. Infinity: there was none. */
  firstAtMs = Infinity
  lastEndMs = 0
  readonly #atMs: Float64Array
  readonly #firstMs: Float64Array
  readonly #endMs: Float64Array
  readonly #lastTokenMs: Float64Array
  readonly #tokens: Uint32Array
  readonly #cached: Uint32Array
  readonly #queuedMs: Float64Array
  readonly #codes: (ErrorCode | null)[]
  readonly #prefillWorker: (WorkerId | null)[]
  readonly #decodeWorker: (WorkerId | null)[]

  constructor(requests: number) {
    this.#atMs = new Float64Array(requests).fill(NaN)
    this.#firstMs = new Float64Array(requests).fill(NaN)
    this.#endMs = new Float64Array(requests).fill(NaN)
    this.#lastTokenMs = new Float64Array(requests)
    this.#tokens = new Uint32Array(requests)
    this.#cached = new Uint32Array(requests)
    this.#queuedMs = new Float64Array(requests)
    this.#codes = Array<ErrorCode | null>(requests).fill(null)
    this.#prefillWorker = Array<WorkerId | null>(requests).fill(null)
    this.#decodeWorker = Array<WorkerId | null>(requests).fill(null)
  }

  arrived(index: number, atMs: number): void {
    this.#atMs[index] = atMs
    this.firstAtMs = Math.min(this.firstAtMs, atMs)
  }

  routed(index: number, { phase, workerId, queuedMs }: RoutedEvent): void {
    this.#queuedMs[index]! += queuedMs
    if (phase === 'prefill') this.#prefillWorker[index] = workerId
    else this.#decodeWorker[index] = workerId
    if (phase === 'prefill') this.disaggregated += 1
  }

  firstToken(index: number, atMs: number): void {
    this.#firstMs[index] = atMs
  }

  gap(ms: number): void {
    this.itl.add(ms)
  }

  /** Adds the gaps between consecutive times. */
  gaps(timesMs: Float64Array): void {
    this.itl.addGaps(timesMs)
  }

  ended(index: number, end: RequestEnd): void {
    this.endedCount += 1
    this.lastEndMs = Math.max(this.lastEndMs, end.atMs)
    this.#endMs[index] = end.atMs
    this.#lastTokenMs[index] = end.lastTokenMs
    this.#tokens[index] = end.tokens
    this.#cached[index] = end.cachedTokens
    this.#codes[index] = end.code
    if (end.code !== null) this.failed[end.code] = (this.failed[end.code] ?? 0) + 1
  }

  /** The requests that have ended, in the order of the trace. */
  *rows(): Generator<RequestRow> {
    for (let index = 0; index < this.#atMs.length; index++) {
      if (Number.isNaN(this.#endMs[index]!)) continue
      const [atMs, firstMs] = [this.#atMs[index]!, this.#firstMs[index]!]
      const tokens = this.#tokens[index]!
      yield {
        index,
        atMs,
        ttftMs: firstMs - atMs,
        e2eMs: this.#endMs[index]! - atMs,
        tokens,
        tpotMs: tokens > 1 ? (this.#lastTokenMs[index]! - firstMs) / (tokens - 1) : 0,
        cachedTokens: this.#cached[index]!,
        code: this.#codes[index]!,
        prefillWorker: this.#prefillWorker[index]!,
        decodeWorker: this.#decodeWorker[index]!,
        queuedMs: this.#queuedMs[index]!,
      }
    }
  }
}
