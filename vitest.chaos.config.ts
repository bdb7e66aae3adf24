import { defineConfig } from 'vitest/config'

/** A fleet over a real nats-server under seeded faults: `npm run test:chaos`. Skipped, and said, where there is none. */
export default defineConfig({
  test: {
    include: ['test/chaos/**/*.chaos.ts'],
    globalSetup: ['test/bundle-setup.ts'],
    testTimeout: 300_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 50_000, interval: 50 } },
    pool: 'forks',
    fileParallelism: false,
    disableConsoleIntercept: true,
  },
})
