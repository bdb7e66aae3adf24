/**
 * How long a simulated engine computes: prefill and decode of one step, in milliseconds.
 *
 * Owns the built-in polynomials (fitted to a large GPU model), user-defined polynomials and tables, and the speed-up.
 * What a step contains is up to the scheduler.
 */
import { BatonError } from '../../base/index.ts'

/** The prefill part of one step: number of requests with prompt tokens, and their mean lengths. */
export interface PrefillBatch {
  readonly requests: number
  /** Prompt tokens computed up to the end of this step, mean over the requests, rounded down. */
  readonly meanPromptTokens: number
  /** Prompt tokens available before this step, mean over the requests, rounded down. */
  readonly meanPrefixTokens: number
  /** Sum of the cached tokens of the requests that start in this step. Default 0. */
  readonly foundTokens?: number
}

/** The decode part of one step. */
export interface DecodeBatch {
  readonly requests: number
  /** Sum of the requests' context lengths. */
  readonly contextTokens: number
  /** KV capacity of the engine in tokens. */
  readonly capacityTokens: number
}

export interface SimTiming {
  prefillMs(batch: PrefillBatch): number
  decodeMs(batch: DecodeBatch): number
}

/** c[0] + c[1]·x + c[2]·x² + … */
export type Polynomial = readonly number[]

/** Linear interpolation between the points, extrapolated beyond the ends; `x` must increase strictly. */
export interface Curve {
  readonly x: readonly number[]
  readonly y: readonly number[]
}

/** Bilinear interpolation: `values[i][j]` belongs to `rows[i]` and `columns[j]`. */
export interface Grid {
  readonly rows: readonly number[]
  readonly columns: readonly number[]
  readonly values: readonly (readonly number[])[]
}

export type SimTimingOptions =
  | {
      readonly kind: 'polynomial'
      /** Polynomial in the new prompt tokens T of the step. Default: 16.50142 + 0.01518344·T + 4.209989e-7·T². */
      readonly prefill?: Polynomial
      /** Polynomial in the share u of KV capacity used by decoding contexts. Default: 5.74 + 54.01·u − 25.74·u². */
      readonly decode?: Polynomial
    }
  | {
      readonly kind: 'table'
      /** New prompt tokens of the step → milliseconds. */
      readonly prefill: Curve
      /** Context tokens in the batch (rows) × mean context (columns) → milliseconds. */
      readonly decode: Grid
    }
  | {
      /** As measured by `baton profile`: the decode time of a step grows with its requests and their contexts. */
      readonly kind: 'linear'
      /** c[0] + c[1]·n + c[2]·((p + n)² − p²) for n new tokens after p existing ones, which attention reads as well. */
      readonly prefill: Polynomial
      /** Fewer tokens take as long as this many, because engines pad their batches. Default 0. */
      readonly prefillTokensMin?: number
      /** Milliseconds per cached prompt token, for engines that copy its KV. Default 0. */
      readonly foundTokenMs?: number
      /** Milliseconds: per step, per request in it, per context token. */
      readonly decode: readonly [step: number, perRequest: number, perToken: number]
      /**
       * Requests → milliseconds of a step, instead of the first two: an engine may use another kernel for one
       * request.
       */
      readonly decodeSteps?: Curve
    }
  | {
      /** A user-defined timing. */
      readonly kind: 'own'
      readonly timing: SimTiming
    }

const PREFILL: Polynomial = [16.50142, 1.518344e-2, 4.209989e-7]
const DECODE: Polynomial = [5.74, 54.01, -25.74]

export function createSimTiming(options: SimTimingOptions = { kind: 'polynomial' }): SimTiming {
  if (options.kind === 'own') return options.timing
  if (options.kind === 'linear') return new LinearTiming(options)
  return options.kind === 'table'
    ? new TableTiming(options.prefill, options.decode)
    : new PolynomialTiming(options.prefill ?? PREFILL, options.decode ?? DECODE)
}

/** New tokens of the step, computed from the rounded means as in the reference implementation. */
function newPromptTokens(batch: PrefillBatch): number {
  return batch.requests * (batch.meanPromptTokens - batch.meanPrefixTokens)
}

class PolynomialTiming implements SimTiming {
  readonly #prefill: Polynomial
  readonly #decode: Polynomial

  constructor(prefill: Polynomial, decode: Polynomial) {
    for (const coefficients of [prefill, decode]) {
      if (coefficients.length === 0 || !coefficients.every(Number.isFinite))
        throw new BatonError('config.invalid', 'a timing polynomial needs finite coefficients')
    }
    this.#prefill = prefill
    this.#decode = decode
  }

  prefillMs(batch: PrefillBatch): number {
    const tokens = newPromptTokens(batch)
    return tokens <= 0 ? 0 : Math.max(0, evaluate(this.#prefill, tokens))
  }

  decodeMs(batch: DecodeBatch): number {
    if (batch.requests === 0) return 0
    const used = batch.capacityTokens === 0 ? 1 : batch.contextTokens / batch.capacityTokens
    return Math.max(1, evaluate(this.#decode, used))
  }
}

class LinearTiming implements SimTiming {
  readonly #prefill: Polynomial
  readonly #decode: readonly number[]
  readonly #steps: Curve | null
  readonly #tokensMin: number
  readonly #foundTokenMs: number

  constructor(options: Extract<SimTimingOptions, { kind: 'linear' }>) {
    const { prefill, prefillTokensMin = 0, foundTokenMs = 0, decode, decodeSteps } = options
    if (!(foundTokenMs >= 0) || !Number.isFinite(foundTokenMs))
      throw new BatonError('config.invalid', 'linear timing: foundTokenMs is a number ≥ 0')
    this.#foundTokenMs = foundTokenMs
    if (!(prefillTokensMin >= 0) || !Number.isFinite(prefillTokensMin))
      throw new BatonError('config.invalid', 'linear timing: prefillTokensMin is a number ≥ 0')
    this.#tokensMin = prefillTokensMin
    if (decodeSteps !== undefined) checkAxis('decodeSteps', decodeSteps.x, decodeSteps.y.length)
    this.#steps = decodeSteps ?? null
    const isFinite = [...prefill, ...decode].every(Number.isFinite)
    if (prefill.length === 0 || prefill.length > 3 || decode.length !== 3 || !isFinite)
      throw new BatonError(
        'config.invalid',
        'linear timing: expected finite numbers, three at most for prefill, three for decode',
      )
    this.#prefill = prefill
    this.#decode = decode
  }

  prefillMs(batch: PrefillBatch): number {
    const tokens = newPromptTokens(batch)
    if (tokens <= 0) return 0
    const { requests, meanPromptTokens, meanPrefixTokens, foundTokens = 0 } = batch
    const [step = 0, perToken = 0, perPair = 0] = this.#prefill
    // The padding reads the cached tokens, too.
    const fresh = Math.max(meanPromptTokens - meanPrefixTokens, this.#tokensMin)
    const pairs = requests * ((meanPrefixTokens + fresh) ** 2 - meanPrefixTokens ** 2)
    const filled = Math.max(tokens, requests * this.#tokensMin)
    return Math.max(
      0,
      step + perToken * filled + perPair * pairs + this.#foundTokenMs * foundTokens,
    )
  }

  decodeMs({ requests, contextTokens }: DecodeBatch): number {
    if (requests === 0) return 0
    const [step, perRequest, perToken] = this.#decode
    const ofStep =
      this.#steps === null
        ? step! + perRequest! * requests
        : interpolate(this.#steps.x, this.#steps.y, requests)
    return Math.max(0, ofStep + perToken! * contextTokens)
  }
}

class TableTiming implements SimTiming {
  readonly #prefill: Curve
  readonly #decode: Grid

  constructor(prefill: Curve, decode: Grid) {
    checkAxis('prefill', prefill.x, prefill.y.length)
    checkAxis('decode rows', decode.rows, decode.values.length)
    for (const row of decode.values) checkAxis('decode columns', decode.columns, row.length)
    this.#prefill = prefill
    this.#decode = decode
  }

  prefillMs(batch: PrefillBatch): number {
    const tokens = newPromptTokens(batch)
    return tokens <= 0 ? 0 : Math.max(0, interpolate(this.#prefill.x, this.#prefill.y, tokens))
  }

  decodeMs(batch: DecodeBatch): number {
    if (batch.requests === 0) return 0
    const { rows, columns, values } = this.#decode
    const mean = Math.floor(batch.contextTokens / batch.requests)
    const column = values.map((row) => interpolate(columns, row, mean))
    return Math.max(1, interpolate(rows, column, batch.contextTokens))
  }
}

function evaluate(coefficients: Polynomial, x: number): number {
  let sum = 0
  for (let i = coefficients.length - 1; i >= 0; i--) sum = sum * x + coefficients[i]!
  return sum
}

function checkAxis(name: string, axis: readonly number[], valueCount: number): void {
  const rises = axis.every((x, i) => Number.isFinite(x) && (i === 0 || x > axis[i - 1]!))
  if (axis.length === 0 || axis.length !== valueCount || !rises) {
    throw new BatonError(
      'config.invalid',
      `timing table, ${name}: the axis must rise strictly and have one value for each point`,
    )
  }
}

function interpolate(x: readonly number[], y: readonly number[], at: number): number {
  if (x.length === 1) return y[0]!
  let i = 1
  while (i < x.length - 1 && x[i]! < at) i++
  const [left, right] = [x[i - 1]!, x[i]!]
  return y[i - 1]! + ((y[i]! - y[i - 1]!) * (at - left)) / (right - left)
}
