import { defineConfig } from 'vitest/config'

/** Real engines of others: `npm run test:engines`. What is not installed is skipped, and said. */
export default defineConfig({
  test: {
    include: ['test/engines/**/*.engines.ts'],
    globalSetup: ['test/bundle-setup.ts'],
    testTimeout: 300_000,
    hookTimeout: 900_000,
    expect: { poll: { timeout: 50_000, interval: 50 } },
    pool: 'forks',
    fileParallelism: false,
    disableConsoleIntercept: true,
  },
})
