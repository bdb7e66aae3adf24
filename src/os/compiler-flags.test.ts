/** In a process of its own, because V8's flags cannot be read and apply to the whole process. */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'

const PROGRAM = `
const { compileSooner } = await import('./src/os/compiler-flags.ts')
const status = new Function('f', 'return %GetOptimizationStatus(f)')
const OPTIMIZED = 1 << 4
function callsUntilOptimized(number) {
  const f = new Function('n', 'let sum = ' + number + '; for (let i = 0; i < 20; i++) sum += n & i; return sum')
  let calls = 0
  while ((status(f) & OPTIMIZED) === 0 && calls < 100000) f(calls++)
  return calls
}
callsUntilOptimized(1)
compileSooner(Number.MAX_SAFE_INTEGER)
const before = callsUntilOptimized(2)
compileSooner(0)
console.log(JSON.stringify({ before, after: callsUntilOptimized(3) }))
process.exit()
`

test.runIf(process.versions.v8.startsWith('11.'))(
  'functions are optimised after fewer calls once the start is over',
  () => {
    const flags = ['--allow-natives-syntax', '--no-concurrent-recompilation', '--import', 'tsx']
    const printed = execFileSync(process.execPath, [
      ...flags,
      '--input-type=module',
      '--eval',
      PROGRAM,
    ])
    const { before, after } = JSON.parse(printed.toString()) as Record<string, number>
    expect(before).toBeGreaterThan(after as number)
  },
)
