import { configDefaults, mergeConfig } from 'vitest/config'
import unit from './vitest.config.ts'

/**
 * Tests that start `baton` as processes of its own, llama.cpp with a model, or a broker: `npm run test:system`. They are half of the
 * CPU of all tests, and run like the others.
 */
export default mergeConfig(
  { ...unit, test: { ...unit.test, include: [], exclude: [] } },
  { test: { include: ['**/*.system.test.ts'], exclude: configDefaults.exclude } },
)
