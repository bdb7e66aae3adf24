/**
 * Statistics of a list of measurements.
 */
export interface Summary {
  readonly p50: number
  readonly p99: number
  readonly mean: number
}

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

/** To three significant digits. */
export const rounded = (value: number): number => Number(value.toPrecision(3))

export function summary(values: readonly number[]): Summary {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return {
    p50: at(0.5),
    p99: at(0.99),
    mean: values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length),
  }
}
