import { expect, test } from 'vitest'
import { boundYoungGeneration, youngGenerationBytes } from './heap-flags.ts'

const MB = 1024 * 1024

/** Its objects survive one or two collections, which makes V8 enlarge the young generation. */
function makeSurvivors(rounds: number): number {
  let kept: { at: number; of: number[] }[] = []
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < 20_000; at++) {
      const made = { at, of: [at, round] }
      if (at % 4 === 0) kept.push(made)
    }
    if (kept.length > 40_000) kept = kept.slice(20_000)
  }
  return kept.length
}

test('the young generation does not exceed its limit, and is unlimited again afterwards', () => {
  const before = youngGenerationBytes()
  const stop = boundYoungGeneration(before)
  makeSurvivors(60)
  expect(youngGenerationBytes()).toBeLessThanOrEqual(before)
  stop()
  makeSurvivors(60)
  expect(youngGenerationBytes()).toBeGreaterThanOrEqual(before)
})

test('below its limit it grows', () => {
  const stop = boundYoungGeneration(1024 * MB)
  makeSurvivors(60)
  expect(youngGenerationBytes()).toBeGreaterThanOrEqual(2 * MB)
  stop()
})
