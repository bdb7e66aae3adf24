/**
 * Fits the computing time of an engine to measurements: least squares of the relative errors, without negative
 * coefficients (an engine is not faster with more work).
 */
import { medianOf } from '../../base/index.ts'
import type { SimTimingOptions } from '../../simengine/index.ts'

export interface PrefillPoint {
  readonly tokens: number
  readonly ms: number
  /** Number of steps in which it was computed. Default 1. */
  readonly pieces?: number
  /** The whole time of which `ms` is a part: errors are relative to it. Default: `ms`. */
  readonly ttftMs?: number
}

/** The time of a request outside the engine. */
export interface OverheadPoint {
  readonly tokens: number
  readonly overheadMs: number
}

export interface DecodePoint {
  readonly requests: number
  readonly contextTokens: number
  readonly ms: number
}

interface Residual {
  readonly measuredMs: number
  readonly fittedMs: number
}

export interface FittedTiming {
  readonly timing: Extract<SimTimingOptions, { kind: 'linear' }>
  readonly prefill: readonly (PrefillPoint & Residual)[]
  readonly decode: readonly (DecodePoint & Residual)[]
  /** Mean and largest relative error. */
  readonly prefillError: readonly [mean: number, max: number]
  readonly decodeError: readonly [mean: number, max: number]
}

/** An additional parameter always fits noise better, so the error must decrease by at least this factor. */
const FLOOR_GAIN = 0.5

export function fitTiming(
  prefill: readonly PrefillPoint[],
  decode: readonly DecodePoint[],
): FittedTiming {
  const tokensMin = leastPiece(prefill)
  const prefillRow = (point: PrefillPoint): number[] => prefillRowOf(point, tokensMin)
  // Each batch size has its own time, because engines compute one request in another way than two.
  const sizes = [...new Set(decode.map(({ requests }) => requests))].toSorted((a, b) => a - b)
  const decodeRow = ({ requests, contextTokens }: DecodePoint): number[] => [
    ...sizes.map((size) => (size === requests ? 1 : 0)),
    contextTokens,
  ]
  const a = fitPrefill(prefill, tokensMin)
  const b = fit(
    decode.map(decodeRow),
    decode.map(({ ms }) => ms),
  )
  const fitted = <T extends { readonly ms: number }>(
    points: readonly T[],
    row: (point: T) => number[],
    coefficients: readonly number[],
  ): (T & Residual)[] =>
    points.map((point) => ({
      ...point,
      measuredMs: point.ms,
      fittedMs: row(point).reduce((sum, x, i) => sum + x * coefficients[i]!, 0),
    }))
  const prefillFit = fitted(prefill, prefillRow, a)
  const decodeFit = fitted(decode, decodeRow, b)
  return {
    timing: {
      kind: 'linear',
      prefill: a,
      ...(tokensMin === 0 ? {} : { prefillTokensMin: tokensMin }),
      decode: [b[0]!, 0, b.at(-1)!],
      decodeSteps: { x: sizes, y: b.slice(0, -1) },
    },
    prefill: prefillFit,
    decode: decodeFit,
    prefillError: errorOf(prefillFit),
    decodeError: errorOf(decodeFit),
  }
}

function prefillRowOf({ tokens, pieces = 1 }: PrefillPoint, tokensMin: number): number[] {
  const filled = Math.max(tokens, pieces * tokensMin)
  return [pieces, filled, filled * filled]
}

function fitPrefill(prefill: readonly PrefillPoint[], tokensMin: number): number[] {
  return fit(
    prefill.map((point) => prefillRowOf(point, tokensMin)),
    prefill.map(({ ms }) => ms),
    prefill.map(({ ms, ttftMs = ms }) => ttftMs),
  )
}

/**
 * The length up to which prompts take the same time, if that explains them much better than a constant part: an
 * engine that computes in blocks of 64 tokens pads shorter chunks. One of the measured lengths, or 0.
 */
function leastPiece(prefill: readonly PrefillPoint[]): number {
  const errorWith = (tokensMin: number): number => {
    const coefficients = fitPrefill(prefill, tokensMin)
    return prefill.reduce((sum, point) => {
      const row = prefillRowOf(point, tokensMin)
      const fitted = row.reduce((total, x, i) => total + x * coefficients[i]!, 0)
      return sum + ((fitted - point.ms) / (point.ttftMs ?? point.ms)) ** 2
    }, 0)
  }
  const lengths = prefill.map(({ tokens }) => tokens).toSorted((a, b) => a - b)
  let [best, least] = [0, FLOOR_GAIN * errorWith(0)]
  // At least two lengths below it and two above are needed.
  for (const tokensMin of lengths.slice(2, -2)) {
    const error = errorWith(tokensMin)
    if (error < least) [best, least] = [tokensMin, error]
  }
  return best
}

/**
 * Milliseconds per request and per prompt token, by medians (Theil and Sen), so that busy moments of the machine,
 * which only add time, have no influence.
 */
export function fitOverhead(points: readonly OverheadPoint[]): {
  readonly requestMs: number
  readonly msPerToken: number
} {
  const slopes = points.flatMap((a, i) =>
    points
      .slice(i + 1)
      .filter(({ tokens }) => tokens !== a.tokens)
      .map((b) => (b.overheadMs - a.overheadMs) / (b.tokens - a.tokens)),
  )
  const msPerToken = Math.max(0, medianOf(slopes) || 0)
  const rest = points.map(({ tokens, overheadMs }) => overheadMs - msPerToken * tokens)
  return { requestMs: Math.max(0, medianOf(rest) || 0), msPerToken }
}

function errorOf(points: readonly Residual[]): readonly [mean: number, max: number] {
  const errors = points.map(({ measuredMs, fittedMs }) => Math.abs(fittedMs / measuredMs - 1))
  const mean = errors.reduce((sum, error) => sum + error, 0) / Math.max(1, errors.length)
  return [mean, Math.max(0, ...errors)]
}

/**
 * Weighted least squares with coefficients ≥ 0: the subset of terms with the smallest error. There are few terms, so
 * all subsets are tried.
 */
function fit(
  rows: readonly (readonly number[])[],
  values: readonly number[],
  scales = values,
): number[] {
  const terms = rows[0]?.length ?? 3
  let best: number[] = Array<number>(terms).fill(0)
  let bestError = Infinity
  for (let set = 1; set < 1 << terms; set++) {
    const used = Array.from({ length: terms }, (_, i) => i).filter((i) => (set >> i) & 1)
    if (used.length > rows.length) continue
    const solved = solve(rows, values, { used, scales })
    if (solved === null || solved.some((coefficient) => coefficient < 0)) continue
    const all = Array<number>(terms).fill(0)
    for (const [i, term] of used.entries()) all[term] = solved[i]!
    const error = rows.reduce((sum, row, k) => {
      const fitted = row.reduce((total, x, i) => total + x * all[i]!, 0)
      return sum + ((fitted - values[k]!) / scales[k]!) ** 2
    }, 0)
    if (error < bestError) [best, bestError] = [all, error]
  }
  return best
}

/** Normal equations of the relative errors, by elimination with pivots; null: singular. */
function solve(
  rows: readonly (readonly number[])[],
  values: readonly number[],
  { used, scales }: { readonly used: readonly number[]; readonly scales: readonly number[] },
): number[] | null {
  const n = used.length
  // Columns are scaled, so that squared tokens do not dominate a constant.
  const scale = used.map((term) => Math.max(...rows.map((row) => Math.abs(row[term]!))) || 1)
  const matrix = Array.from({ length: n }, () => new Float64Array(n + 1))
  for (const [k, row] of rows.entries()) {
    const x = used.map((term, i) => row[term]! / scale[i]! / scales[k]!)
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) matrix[i]![j]! += x[i]! * x[j]!
      matrix[i]![n]! += (x[i]! * values[k]!) / scales[k]!
    }
  }
  for (let i = 0; i < n; i++) {
    let pivot = i
    for (let r = i + 1; r < n; r++)
      if (Math.abs(matrix[r]![i]!) > Math.abs(matrix[pivot]![i]!)) pivot = r
    const swapped = matrix[i]!
    matrix[i] = matrix[pivot]!
    matrix[pivot] = swapped
    if (Math.abs(matrix[i]![i]!) < 1e-12) return null
    for (let r = 0; r < n; r++) {
      if (r === i) continue
      const times = matrix[r]![i]! / matrix[i]![i]!
      for (let j = i; j <= n; j++) matrix[r]![j]! -= times * matrix[i]![j]!
    }
  }
  return scale.map((size, i) => matrix[i]![n]! / matrix[i]![i]! / size)
}
