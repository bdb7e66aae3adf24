/** Chooses a candidate by cost: the cheapest with random tie-breaking, or a random draw at a temperature. */
import { BatonError, randomInt, safeText } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import type { Picker } from '../cost/policy-part.ts'
import { isPromise } from '../cost/returned-promise.ts'

/** Index of the lowest cost; ties are broken uniformly. Uses at most one random number, and none without a tie. */
export const pickLowest: Picker = (costs, count, random) => {
  let best = 0
  let lowest = Infinity
  let ties = 0
  for (let i = 0; i < count; i++) {
    const cost = costs[i] as number
    if (cost < lowest) {
      best = i
      lowest = cost
      ties = 1
    } else if (cost === lowest) ties++
  }
  if (ties <= 1) return best
  let skip = randomInt(random, ties)
  for (let i = best; i < count; i++) {
    if (costs[i] === lowest && skip-- === 0) return i
  }
  return best
}

/** Softmax over min-max-normalised negative cost; temperature 0 picks the lowest cost. */
export function pickAtTemperature(temperature: number): Picker {
  if (temperature <= 0) return pickLowest
  return (costs, count, random) => softmaxIndex(costs, count, temperature, random.next())
}

/** The random sample is an argument, so that tests get a known result. */
export function softmaxIndex(
  costs: Float64Array,
  count: number,
  temperature: number,
  sample: number,
): number {
  let min = Infinity
  let max = -Infinity
  for (let i = 0; i < count; i++) {
    const cost = costs[i] as number
    if (cost < min) min = cost
    if (cost > max) max = cost
  }
  if (!(max > min)) return Math.min(Math.floor(sample * count), count - 1)
  // If max − min overflows, scale down first; only the proportions matter.
  const scale = Number.isFinite(max - min) ? 1 : Math.max(Math.abs(max), Math.abs(min))
  const range = max / scale - min / scale
  const weightAt = (i: number): number =>
    Math.exp(-((costs[i] as number) / scale - min / scale) / (range * temperature))
  let total = 0
  for (let i = 0; i < count; i++) total += weightAt(i)
  let cumulative = 0
  for (let i = 0; i < count; i++) {
    cumulative += weightAt(i) / total
    if (cumulative >= sample) return i
  }
  return count - 1
}

/** Power of two choices: draws two different candidates and returns the one with fewer requests; the first on a tie. */
export function pickOfTwo(loads: (index: number) => number, count: number, random: Random): number {
  const first = randomInt(random, count)
  if (count === 1) return first
  const second = (first + 1 + randomInt(random, count - 1)) % count
  return loads(first) <= loads(second) ? first : second
}

/** Calls a user-defined picker and checks what it throws or returns. */
export function pickWith(
  picker: Picker,
  costs: Float64Array,
  count: number,
  random: Random,
): number {
  let index: unknown
  try {
    index = picker(costs, count, random)
  } catch (error) {
    throw new BatonError('runtime.internal', `the picker threw: ${safeText(error)}`, {
      cause: error,
    })
  }
  if (Number.isInteger(index) && (index as number) >= 0 && (index as number) < count) {
    return index as number
  }
  const shown = isPromise(index) ? 'a promise' : safeText(index)
  throw new BatonError(
    'runtime.internal',
    `the picker returned ${shown}, expected a whole number from 0 to ${count - 1}`,
  )
}
