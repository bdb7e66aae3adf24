import { defineConfig } from 'vitest/config'

/** A fleet over a real nats-server under seeded faults: `npm run test:chaos`. Skipped, and said, where there is none. */
export default defineConfig({
  test: {
    include: ['test/chaos/**/*.chaos.ts'],
    globalSetup: ['test/bundle-setup.ts'],
    testTimeout: 300_000,
    hookTimeout: 60_000,
    pool: 'forks',
    fileParallelism: false,
    disableConsoleIntercept: true,
  },
})
