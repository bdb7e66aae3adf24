/**
 * How far a worker's clock is off, from the time that its HELLO names: it was written between the start of the
 * connection and its arrival here. Slow networks and busy processes cannot make a right clock look wrong.
 *
 * Positive: the worker's clock is ahead by at least so much. 0: it may be right.
 */
export function clockOffsetMs(
  peerEpochMs: number | undefined,
  dialledEpochMs: number,
  arrivedEpochMs: number,
): number {
  if (peerEpochMs === undefined) return 0
  if (peerEpochMs < dialledEpochMs) return peerEpochMs - dialledEpochMs
  return Math.max(0, peerEpochMs - arrivedEpochMs)
}
