import { configDefaults, mergeConfig } from 'vitest/config'
import unit from './vitest.config.ts'

/**
 * Tests that start `baton` as processes, load llama.cpp with a model, use a broker, or compare simulated fleets over several
 * seeds: `npm run test:system`. They take more than half of the CPU time of all tests.
 */
export default mergeConfig(
  { ...unit, test: { ...unit.test, include: [], exclude: [] } },
  {
    test: {
      include: ['**/*.system.test.ts'],
      exclude: configDefaults.exclude,
      // Some simulated comparisons compute for a minute when other processes use the cores, too.
      testTimeout: 300_000,
    },
  },
)
