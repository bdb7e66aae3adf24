/**
 * `npm start` and `npm run baton`: bundles the program when a source is newer than the bundle, then runs it in this process, so that
 * Ctrl-C and SIGTERM reach it and its exit code reaches npm.
 *
 * package.json starts it with `exec`, so that it takes the place of npm's shell. Without it npm 11 ends with 143 at SIGTERM, at once, while the
 * program still drains, and with 130 at Ctrl-C though the program ended with 0: npm reports how the shell ended, which no program can change.
 * Where there is no POSIX shell: `node scripts/start.js serve`.
 */
import { fileURLToPath } from 'node:url'

const ENTRY = new URL('../dist/bin/baton.js', import.meta.url)

const { bundleProgram, isProgramStale } = await import('./bundle.js')
if (isProgramStale()) {
  console.error('baton: building (sources are newer than dist/bin)')
  await bundleProgram()
}
process.argv[1] = fileURLToPath(ENTRY)
await import(ENTRY.href)
