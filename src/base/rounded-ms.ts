/** Milliseconds rounded to a microsecond, for people and logs. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
