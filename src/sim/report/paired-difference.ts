/**
 * The difference between two configurations, measured on the same seeds: the mean of the paired differences and its
 * 95 % confidence interval (Student's t).
 */
export interface PairedDifference {
  readonly pairs: number
  readonly mean: number
  /** Half the width of the interval; Infinity with fewer than two pairs. */
  readonly margin: number
  /** The mean as a share of the baseline's mean; NaN when that is 0. */
  readonly relative: number
  readonly relativeMargin: number
}

/** Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom. */
const T95 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048,
  2.045, 2.042,
] as const

export function pairedDifference(
  baseline: readonly number[],
  other: readonly number[],
): PairedDifference {
  const differences = other.map((value, i) => value - baseline[i]!)
  const { mean, margin } = meanWithMargin(differences)
  const base = baseline.reduce((sum, value) => sum + value, 0) / baseline.length
  return {
    pairs: differences.length,
    mean,
    margin,
    relative: base === 0 ? NaN : mean / base,
    relativeMargin: base === 0 ? NaN : margin / Math.abs(base),
  }
}

export function meanWithMargin(values: readonly number[]): {
  readonly mean: number
  readonly margin: number
} {
  const count = values.length
  // Relative to the first value, so that equal values have a margin of exactly 0.
  const first = values[0] ?? NaN
  const mean = first + values.reduce((sum, value) => sum + (value - first), 0) / count
  if (count < 2) return { mean, margin: Infinity }
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
  const t = T95[count - 2] ?? t95Of(count - 1)
  return { mean, margin: t * Math.sqrt(squares / (count - 1) / count) }
}

const Z95 = 1.959964

/** Cornish-Fisher expansion; from 31 degrees of freedom on the error is below 0.0001. */
function t95Of(freedom: number): number {
  const z = Z95
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom * freedom)
  return z + (z ** 3 + z) / (4 * freedom) + second
}
