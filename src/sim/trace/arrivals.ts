/**
 * The arrival times of a workload's requests.
 */
import type { Random } from '../../base/index.ts'

export const WORKLOAD_ARRIVALS = ['poisson', 'bursts', 'diurnal', 'constant'] as const
export type WorkloadArrivals = (typeof WORKLOAD_ARRIVALS)[number]

const BURST_SIZE = 12
/** Requests after the first one of a burst, on average: a whole number below twice the size. */
const BURST_REST = BURST_SIZE - 0.5
/** How much closer than the mean they follow each other. */
const BURST_HURRY = 50
/** The diurnal load has one day per run; its peak rate is higher than the mean by this share. */
const DIURNAL_SWING = 0.8

/** The time of the next arrival after the last one. All processes have the same mean rate. */
export function createArrivals(
  kind: WorkloadArrivals,
  perSecond: number,
  durationSeconds: number,
  random: Random,
): (lastMs: number) => number {
  const meanMs = 1000 / perSecond
  const exponential = (mean: number): number => -Math.log(1 - random.next()) * mean
  let leftInBurst = 0
  switch (kind) {
    case 'constant':
      return (lastMs) => lastMs + meanMs
    case 'poisson':
      return (lastMs) => lastMs + exponential(meanMs)
    case 'bursts':
      return (lastMs) => {
        if (leftInBurst > 0) {
          leftInBurst -= 1
          return lastMs + exponential(meanMs / BURST_HURRY)
        }
        leftInBurst = Math.floor(2 * BURST_SIZE * random.next())
        // The pause makes up for the hurry of the burst, so that the mean rate is the requested one.
        return lastMs + exponential(meanMs * (1 + BURST_REST - BURST_REST / BURST_HURRY))
      }
    case 'diurnal':
      return (lastMs) => {
        const share = lastMs / (1000 * durationSeconds)
        // It starts and ends at the mean rate: if it ended at the lowest one, a few requests more or less would
        // move its end by much.
        const rate = 1 + DIURNAL_SWING * Math.sin(2 * Math.PI * share)
        return lastMs + exponential(meanMs / rate)
      }
  }
}
