/**
 * `npm start`: builds what is not built, then serves. One process, started with `exec` in place of npm's shell, so that
 * Ctrl-C and SIGTERM reach the server and its exit code reaches npm.
 */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const main = new URL('../dist/cli/main.js', import.meta.url)
const compiler = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace(/package\.json$/, 'bin/tsc')
const root = fileURLToPath(new URL('..', import.meta.url))
const built = spawnSync(process.execPath, [compiler, '-b', root], { stdio: 'inherit' })
if (built.status !== 0) process.exit(1)

process.argv.splice(1, 1, fileURLToPath(main), 'serve')
await import(main.href)
