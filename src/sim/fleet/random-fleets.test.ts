/**
 * Fleets whose every setting is drawn from a seed, under faults: requests end once with the right tokens, nothing is
 * left behind.
 *
 * More of them: `BATON_TEST_SEEDS=100-400 npx vitest run src/sim/fleet/random-fleets.test.ts` (a second of CPU for
 * each).
 */
import { describe, expect, it } from 'vitest'
import { randomFleet } from '../../../test/fixtures/random-fleet.ts'
import { runFleet } from './run-fleet.ts'

const REQUESTS = 400
const [first = 38, last = 49] = (process.env['BATON_TEST_SEEDS'] ?? '38-49').split('-').map(Number)

describe('fleets drawn from a seed', () => {
  const seeds = Array.from({ length: last - first + 1 }, (_, i) => first + i)
  it.each(seeds)('seed %i - each request ends once and nothing is left behind', async (seed) => {
    const { violations, completed, failed } = await runFleet(randomFleet(seed, REQUESTS))
    expect(violations).toEqual([])
    expect(Object.keys(failed)).not.toContain('runtime.internal')
    expect(Object.values(failed).reduce((sum, count) => sum + count, completed)).toBe(REQUESTS)
  })
})
