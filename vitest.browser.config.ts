import { defineConfig } from 'vitest/config'

/** A real Chromium: `npm run test:browser`. Skipped, and said, where none is installed. */
export default defineConfig({
  test: {
    include: ['test/browser/**/*.browser.ts'],
    globalSetup: ['test/bundle-setup.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 50_000, interval: 50 } },
    pool: 'forks',
    fileParallelism: false,
    disableConsoleIntercept: true,
  },
})
