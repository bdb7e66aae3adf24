/** Milliseconds as people and logs read them: to a microsecond. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
