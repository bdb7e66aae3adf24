/**
 * `npm test`: builds, then runs the tests and, at the same time, the other checks one after the other. Arguments go to
 * vitest. Tests run on the compiled files, which saves two thirds of the CPU time (scripts/built-sources.ts).
 *
 * `npm run test:system` passes `--system`: builds, then runs only the tests that start processes (`*.system.test.ts`).
 *
 * The checks are scripts of package.json, started without a shell, so that this works on every platform. Tests spend much
 * of their time waiting for processes and sockets, so the checks get a core meanwhile. Each output is printed as a whole,
 * always in the same order; all checks run even if one has failed.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const CHECKS = ['typecheck', 'tidy', 'lint', 'format:check']
/**
 * For the type checker and the linter, which are Go programs that run a few seconds: collecting garbage half as
 * often saves a quarter of their CPU time and takes a third more memory.
 */
const SELDOM_COLLECTED = { GOGC: '400' }
/** Programs whose name differs from their package. */
const PACKAGE_OF = { tsc: 'typescript' }

const require = createRequire(import.meta.url)
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

/** The script that a package installs under that name. */
function programPath(name) {
  const manifestPath = join(ROOT, 'node_modules', PACKAGE_OF[name] ?? name, 'package.json')
  const { bin } = require(manifestPath)
  return join(dirname(manifestPath), typeof bin === 'string' ? bin : bin[name])
}

function start(command, stdio, environment = {}) {
  const [program, ...args] = command
  const env = { ...process.env, ...environment }
  return spawn(process.execPath, [programPath(program), ...args], { cwd: ROOT, stdio, env })
}

function ended(child) {
  return new Promise((resolve) => {
    child.once('error', () => resolve(false))
    child.once('close', (code) => resolve(code === 0))
  })
}

/** Resolves with its output and whether it succeeded. */
async function runQuietly(name) {
  const child = start(scripts[name].split(' '), ['ignore', 'pipe', 'pipe'], SELDOM_COLLECTED)
  const pieces = []
  child.stdout.on('data', (piece) => pieces.push(piece))
  child.stderr.on('data', (piece) => pieces.push(piece))
  const isGood = await ended(child)
  return { name, isGood, printed: Buffer.concat(pieces).toString() }
}

async function runChecks() {
  const results = []
  for (const name of CHECKS) results.push(await runQuietly(name))
  return results
}

async function main() {
  // Tests of the package need it to be built.
  if (!(await ended(start(['tsc', '-b'], 'inherit')))) return false
  const arguments_ = process.argv.slice(2)
  const isSystem = arguments_[0] === '--system'
  if (isSystem) arguments_.splice(0, 1, '--config', 'vitest.system.config.ts')
  const tests = ended(start(['vitest', 'run', ...arguments_], 'inherit', { TEST_BUILT: '1' }))
  if (isSystem) return await tests
  const checks = runChecks()
  const results = [{ name: 'tests', isGood: await tests, printed: '' }, ...(await checks)]
  for (const { name, isGood, printed } of results) {
    console.log(`${isGood ? 'passed' : 'FAILED'}: ${name}`)
    if (!isGood && printed !== '') console.log(printed)
  }
  return results.every(({ isGood }) => isGood)
}

process.exitCode = (await main()) ? 0 : 1
