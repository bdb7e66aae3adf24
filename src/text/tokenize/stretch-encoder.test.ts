import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { modelTextFromHuggingFace } from '../model/model-text.ts'
import type { Tokenizer } from './tokenizer.ts'

const readJson = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../models/storyteller/${name}`, import.meta.url), 'utf8'))
const newTokenizer = (): Tokenizer =>
  modelTextFromHuggingFace({
    tokenizer: readJson('tokenizer.json'),
    tokenizerConfig: readJson('tokenizer_config.json'),
  }).tokenizer
const tokenizer = newTokenizer()
const OPTIONS = { special: true }

/** Number of steps; null: the text cannot be divided. */
function stepsOf(text: string): number | null {
  const steps = tokenizer.encodeInSteps?.(text, OPTIONS)
  if (steps === undefined || steps === null) return null
  let count = 1
  while (steps.next().done !== true) count++
  return count
}

describe('a text in steps', () => {
  it.each([
    ['of 10,000 characters', 'the fox '.repeat(1250), 2],
    ['of 400,000 characters', 'the fox '.repeat(50_000), 49],
    ['of short messages', '<|im_start|>user\nhello<|im_end|>\n'.repeat(4000), 6],
    ['that is empty', '', 1],
    ['with 16,000 letters without a blank', `${'a'.repeat(16_000)} and more`, 2],
  ])('%s - the expected number of them', (_, text, count) => {
    expect(stepsOf(text)).toBe(count)
  })

  it('with 17,000 letters without a blank - cannot be divided', () => {
    expect(stepsOf(`the fox ${'a'.repeat(17_000)} the fox`)).toBeNull()
  })

  it('two texts whose steps alternate - each gets its own ids', () => {
    const texts = ['the fox and the hen '.repeat(3000), 'once upon a time '.repeat(3000)]
    const expected = texts.map((text) => tokenizer.encode(text, OPTIONS))
    const fresh = newTokenizer()
    const running = texts.map((text) => fresh.encodeInSteps?.(text, OPTIONS) ?? null)
    const ended = new Map<number, Uint32Array>()
    while (ended.size < texts.length) {
      for (const [i, steps] of running.entries()) {
        const next = steps?.next()
        if (next?.done === true && !ended.has(i)) ended.set(i, next.value)
      }
    }
    expect(texts.map((_, i) => ended.get(i))).toEqual(expected)
  })
})
