import { expect, it } from 'vitest'
import { finishChunk, tokenChunk, usageOf } from '../request/index.ts'
import type { Chunk, GenerateRequest, Usage } from '../request/index.ts'
import { brokenStreamRule, StreamValidator } from './validate-stream.ts'

const request: GenerateRequest = {
  requestId: 'r',
  model: 'm',
  tokenIds: Uint32Array.of(1, 2, 3),
  sampling: {},
  stop: { maxTokens: 5 },
  output: {},
  eosTokenIds: [],
  routing: {},
}
const endless: GenerateRequest = { ...request, stop: {} }

/** The rule that the stream breaks, or null. */
function ruleOf(chunks: readonly Chunk[], asked = request): string | null {
  const validator = new StreamValidator({ request: asked })
  try {
    for (const chunk of chunks) validator.chunk(chunk)
    return null
  } catch (error) {
    return brokenStreamRule(error)
  }
}

const id = (usage: Usage): Chunk => ({ ...tokenChunk(9), usage })
const text = (usage: Usage): Chunk => ({ tokenIds: [], text: 'ab', usage })
const nothing = (usage: Usage): Chunk => ({ tokenIds: [], usage })
const empty = (usage: Usage): Chunk => ({ tokenIds: [], text: '', usage })
const stopped = (usage: Usage): Chunk => finishChunk('cancelled', { usage })
const end = (usage: Usage): Chunk => finishChunk('stop', { usage })

it.each<[string, readonly Chunk[], string | null]>([
  ['as many as so far', [id(usageOf(3, 1)), id(usageOf(3, 2)), end(usageOf(3, 2))], null],
  ['one too few', [id(usageOf(3, 0))], 'usage-mismatch'],
  ['one too many', [id(usageOf(3, 2))], 'usage-mismatch'],
  ['one too many of the second', [id(usageOf(3, 1)), id(usageOf(3, 3))], 'usage-mismatch'],
  ['a shorter prompt', [id(usageOf(2, 1))], 'usage-prompt-mismatch'],
  ['a longer prompt', [id(usageOf(4, 1))], 'usage-prompt-mismatch'],
  ['more cached than the prompt has', [id(usageOf(999, 1, 4))], 'usage-prompt-mismatch'],
  ['all of the prompt cached', [id(usageOf(3, 1, 3))], null],
  ['a wrong sum', [id({ ...usageOf(3, 1), totalTokens: 5 })], 'usage-total-mismatch'],
  ['before the first token', [nothing(usageOf(3, 0)), id(usageOf(3, 1))], null],
  [
    'a wrong prompt and no token',
    [nothing(usageOf(4, 0)), end(usageOf(4, 0))],
    'usage-prompt-mismatch',
  ],
])('usage of ids: %s', (_name, chunks, rule) => {
  expect(ruleOf(chunks)).toBe(rule)
})

it.each<[string, readonly Chunk[], string | null]>([
  ['a prompt of its own', [text(usageOf(7, 1)), end(usageOf(7, 1))], null],
  [
    'a prompt of its own before the first text',
    [nothing(usageOf(7, 0)), text(usageOf(7, 2))],
    null,
  ],
  ['a prompt of its own, stopped before the first text', [stopped(usageOf(7, 0))], null],
  ['a prompt of its own and no text', [{ ...end(usageOf(7, 0)), text: '' }], null],
  ['a prompt of its own, no text and its end', [empty(usageOf(7, 0)), end(usageOf(7, 1))], null],
  ['ids after no text', [empty(usageOf(7, 0)), id(usageOf(7, 1))], 'usage-prompt-mismatch'],
  ['no text and more than asked', [{ ...end(usageOf(7, 6)), text: '' }], 'usage-mismatch'],
  ['more than pieces', [text(usageOf(3, 4)), end(usageOf(3, 4))], null],
  ['less than pieces', [text(usageOf(3, 1)), text(usageOf(3, 1)), end(usageOf(3, 1))], null],
  ['one more at the end', [text(usageOf(3, 2)), end(usageOf(3, 3))], null],
  ['one less', [text(usageOf(3, 2)), text(usageOf(3, 1))], 'usage-mismatch'],
  ['one less at the end', [text(usageOf(3, 2)), end(usageOf(3, 1))], 'usage-mismatch'],
  [
    'less than before the first text',
    [nothing(usageOf(3, 2)), text(usageOf(3, 1))],
    'usage-mismatch',
  ],
  [
    'less than the ids before',
    [tokenChunk(9), tokenChunk(9), text(usageOf(3, 1))],
    'usage-mismatch',
  ],
  ['one less than asked', [text(usageOf(3, 4))], null],
  ['as many as asked', [text(usageOf(3, 5)), end(usageOf(3, 5))], null],
  ['one more than asked', [text(usageOf(3, 6))], 'usage-mismatch'],
  ['one more than asked at the end', [text(usageOf(3, 1)), end(usageOf(3, 6))], 'usage-mismatch'],
  ['more than asked before the first text', [nothing(usageOf(3, 6))], 'usage-mismatch'],
])('usage of text: %s', (_name, chunks, rule) => {
  expect(ruleOf(chunks)).toBe(rule)
})

it('usage of text without a limit of tokens - may be any number that does not decrease', () => {
  expect(ruleOf([text(usageOf(3, 9)), end(usageOf(3, 4_000_000_000))], endless)).toBeNull()
  expect(ruleOf([text(usageOf(3, 9)), end(usageOf(3, 8))], endless)).toBe('usage-mismatch')
})
