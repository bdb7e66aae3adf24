/**
 * The routing policies that are compared.
 */
import type { RouterOptions } from '../../src/router/index.ts'

export const POLICIES: Readonly<Record<string, RouterOptions>> = {
  weighed: { cost: 'blocks', prefillLoadScale: 16, decodeActiveRequestWeight: 128 },
  dynamo: { cost: 'blocks', prefillLoadScale: 1, decodeActiveRequestWeight: 0 },
  'least-loaded': { mode: 'least-loaded' },
  'power-of-two': { mode: 'power-of-two' },
  time: { cost: 'time' },
}
/** The policy that is compared with the others. */
export const JUDGED = 'time'
/** Not a policy, but what none can beat (`lower-bound.ts`). */
export const BOUND = 'bound'

/** The n-th repetition of a policy: ties are broken in another way, and requests are up to a millisecond later. */
export const repeated = (policy: string, n: number): string => `${policy}#${n}`
export const isRepeated = (name: string): boolean => name.includes('#')
