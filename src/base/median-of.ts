/** The median of measurements; of an even number of them, the larger of the two in the middle; NaN if there are none. */
export function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
}
