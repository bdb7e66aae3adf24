import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'
import { builtSources } from './scripts/built-sources.ts'
import { LongFirst } from './scripts/long-first.ts'

/** The examples name the package as its users do. */
const { compilerOptions } = JSON.parse(
  readFileSync(new URL('tsconfig.json', import.meta.url), 'utf8'),
) as { compilerOptions: { paths: Record<string, string[]> } }
const alias = Object.entries(compilerOptions.paths).map(([name, [path = '']]) => ({
  find: new RegExp(`^${name}$`),
  replacement: fileURLToPath(new URL(path, import.meta.url)),
}))

/** `npm test` has compiled them just now (scripts/check.js). Otherwise tests see the sources as they are, compiled or not. */
const isBuilt = process.env['TEST_BUILT'] === '1'

export default defineConfig({
  resolve: { alias },
  plugins: isBuilt ? [builtSources()] : [],
  test: {
    server: { deps: { external: isBuilt ? [/[\\/]dist[\\/].*\.js$/] : [] } },
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // What starts `baton` as processes or takes long is a suite of its own: `npm run test:system`.
    exclude: [...configDefaults.exclude, '**/*.system.test.ts'],
    // Tests that start processes run the bundle; it is made once, when a source is newer.
    globalSetup: ['test/bundle-setup.ts'],
    // A passing test needs a small part of these times; on a busy machine it may need much more than usual.
    testTimeout: 120_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 50_000, interval: 20 } },
    pool: 'forks',
    sequence: { sequencer: LongFirst },
    // Half of the time of 170 files went into starting a process and loading the rooms for each of them.
    isolate: false,
    maxWorkers: 4,
    // The cores are busy with other files: helper threads of the garbage collector take a fifth more CPU for nothing.
    // Requests of a simulated fleet are kept young as those of a served one (src/os/heap-flags.ts), with room for thousands of them.
    execArgv: [
      '--single-threaded-gc',
      '--max-semi-space-size=64',
      '--no-allocation-site-pretenuring',
    ],
  },
})
