/**
 * In processes of their own: here, the young generation may be as large as it can be because of the test files before.
 * V8 of Node 24 exceeds its size for a moment now and then, even if that is the maximum: the smallest of three counts.
 */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'

const MB = 1024 * 1024

/** Survivors live through one or two collections, which makes V8 enlarge the young generation. */
const SURVIVORS = `
const { boundYoungGeneration, youngGenerationBytes } = await import('./src/os/heap-flags.ts')
const MB = 1024 * 1024
function makeSurvivors() {
  let kept = []
  for (let round = 0; round < 60; round++) {
    for (let at = 0; at < 20000; at++) {
      const made = { at, of: [at, round] }
      if (at % 4 === 0) kept.push(made)
    }
    if (kept.length > 40000) kept = kept.slice(20000)
  }
}
const sizes = []
function measure() {
  let least = Infinity
  for (let i = 0; i < 3; i++) {
    makeSurvivors()
    least = Math.min(least, youngGenerationBytes())
  }
  sizes.push(least)
}
`

/** Runs a program that measures; returns the sizes. */
function sizesOf(program: string): number[] {
  const flags = ['--single-threaded-gc', '--import', 'tsx', '--input-type=module', '--eval']
  const code = `${SURVIVORS}\n${program}\nconsole.log(JSON.stringify(sizes))\nprocess.exit()`
  return JSON.parse(execFileSync(process.execPath, [...flags, code]).toString()) as number[]
}

test('the young generation does not exceed its limit, and is unlimited again afterwards', () => {
  const [bounded = 0, unbounded = 0] = sizesOf(`
    const stop = boundYoungGeneration(4 * MB)
    measure()
    stop()
    measure()
  `)
  expect(bounded).toBeLessThanOrEqual(4 * MB)
  expect(unbounded).toBeGreaterThanOrEqual(16 * MB)
})

test('below its limit it grows', () => {
  const [size] = sizesOf(`
    boundYoungGeneration(1024 * MB)
    measure()
  `)
  expect(size).toBeGreaterThanOrEqual(16 * MB)
})
