/**
 * Expected number of requests beyond the batch size of a rank, considering that another frontend may take the last
 * place at the same moment.
 */
const LAST_PLACE_RISK = 0.25

export function expectedExcess(excess: number): number {
  if (excess < -4) return 0
  return Math.max(excess, 0) + LAST_PLACE_RISK * Math.exp(-Math.abs(excess))
}
