import { describe, expect, it } from 'vitest'
import { BatonError } from '../base/index.ts'
import { finishChunk, textChunk, tokenChunk, usageOf } from '../request/index.ts'
import type { Chunk, GenerateRequest } from '../request/index.ts'
import { RequestContext } from './generate-context.ts'
import { brokenStreamRule, StreamValidator, validateStream } from './validate-stream.ts'
import type { StreamRule, ValidateOptions } from './validate-stream.ts'

const request: GenerateRequest = {
  requestId: 'r',
  model: 'm',
  tokenIds: Uint32Array.of(1, 2, 3),
  sampling: {},
  stop: { maxTokens: 3 },
  output: {},
  eosTokenIds: [],
  routing: {},
}

async function* streamOf(items: readonly (Chunk | Error)[]): AsyncGenerator<Chunk> {
  for (const item of items) {
    if (item instanceof Error) throw item
    yield item
  }
}

async function outcomeOf(
  items: readonly (Chunk | Error)[],
  options: ValidateOptions = { request },
): Promise<{ chunks: Chunk[]; error?: unknown }> {
  const chunks: Chunk[] = []
  try {
    for await (const chunk of validateStream(streamOf(items), options)) chunks.push(chunk)
    return { chunks }
  } catch (error) {
    return { chunks, error }
  }
}

const end = finishChunk('length', { usage: usageOf(3, 1) })

describe('validateStream - valid streams', () => {
  it('are passed on unchanged', async () => {
    const items = [tokenChunk(5), { tokenIds: [] }, end]
    expect(await outcomeOf(items)).toEqual({ chunks: items })
  })

  it('a typed error - is terminal and keeps its code', async () => {
    const error = new BatonError('backend.worker_unavailable', 'gone')
    expect(await outcomeOf([tokenChunk(5), error])).toEqual({ chunks: [tokenChunk(5)], error })
  })

  it('an untyped error - becomes backend.unknown with its cause', async () => {
    const cause = new Error('segfault')
    const { error } = await outcomeOf([cause])
    expect(error).toMatchObject({ code: 'backend.unknown', cause })
  })

  it("a reader that leaves - closes the engine's iterator", async () => {
    let isReleased = false
    async function* engine(): AsyncGenerator<Chunk> {
      try {
        for (;;) yield tokenChunk(1)
      } finally {
        isReleased = true
      }
    }
    for await (const chunk of validateStream(engine())) if (chunk.tokenIds.length > 0) break
    expect(isReleased).toBe(true)
  })
})

describe('validateStream - forms that an engine may yield', () => {
  it.each([
    ['a typed array', { tokenIds: Uint32Array.of(5, 6) }, { tokenIds: [5, 6] }],
    ['text', { text: 'ab' }, { tokenIds: [], text: 'ab' }],
    ['neither', { usage: usageOf(3, 0) }, { tokenIds: [], usage: usageOf(3, 0) }],
  ])('%s - becomes a chunk', async (_name, item, chunk) => {
    const { chunks, error } = await outcomeOf([item as Chunk])
    expect(chunks).toEqual([chunk])
    expect(brokenStreamRule(error)).toBe('missing-terminal')
  })

  it('text - the number of tokens is what the engine reports', async () => {
    const items = [textChunk('ab'), finishChunk('stop', { text: 'c', usage: usageOf(3, 3) })]
    expect(await outcomeOf(items)).toEqual({ chunks: items })
  })
})

describe('validateStream - violations by rule', () => {
  const logprob = { tokenId: 5, logprob: -1, top: [] }
  const scores = (from: number, ...ids: number[]): Chunk => ({
    tokenIds: [],
    promptLogprobs: { from, tokens: ids.map((tokenId) => ({ ...logprob, tokenId })) },
  })
  const scored = { request: { ...request, output: { promptLogprobs: 0 } } }
  const cases: [StreamRule, readonly (Chunk | Error)[], ValidateOptions?][] = [
    ['chunk-malformed', ['text' as unknown as Chunk]],
    ['chunk-malformed', [{ tokenIds: new Set([1]) as never }]],
    ['chunk-malformed', [{ tokenIds: [], text: 5 as never }]],
    ['chunk-malformed', [{ tokenIds: [1], text: 'a' }]],
    ['token-invalid', [{ tokenIds: Int32Array.of(-1) as never }]],
    ['missing-terminal', [tokenChunk(1)]],
    ['missing-terminal', []],
    ['item-after-terminal', [tokenChunk(1), end, end]],
    ['item-after-terminal', [tokenChunk(1), end, new Error('late')]],
    ['finish-unknown', [{ tokenIds: [], finish: 'weary' as 'stop' }]],
    ['token-invalid', [tokenChunk(-1)]],
    ['token-invalid', [tokenChunk(1.5)]],
    ['tokens-over-max', [{ tokenIds: [1, 2, 3, 4] }]],
    ['usage-mismatch', [finishChunk('stop', { usage: usageOf(3, 2) })]],
    [
      'usage-total-mismatch',
      [finishChunk('stop', { usage: { promptTokens: 3, completionTokens: 0, totalTokens: 4 } })],
    ],
    ['logprobs-mismatch', [{ tokenIds: [5], logprobs: [logprob, logprob] }]],
    ['logprobs-mismatch', [{ tokenIds: [6], logprobs: [logprob] }]],
    ['logprobs-missing', [tokenChunk(5)], { request: { ...request, output: { logprobs: 0 } } }],
    ['prompt-logprobs-invalid', [scores(4e9, 2)], scored],
    ['prompt-logprobs-invalid', [scores(2, 3)], scored],
    ['prompt-logprobs-invalid', [scores(1, 2, 3, 4)], scored],
    ['prompt-logprobs-invalid', [scores(1, 3)], scored],
    ['logprobs-missing', [tokenChunk(5)], scored],
    ['logprobs-missing', [scores(1, 2), tokenChunk(5)], scored],
    ['logprobs-missing', [finishChunk('length')], scored],
  ]
  it.each(cases)('%s', async (rule, items, options) => {
    const { error } = await outcomeOf(items, options)
    expect(brokenStreamRule(error)).toBe(rule)
    const code =
      rule === 'missing-terminal' ? 'backend.stream_incomplete' : 'backend.contract_violation'
    expect(error).toMatchObject({ code, data: { rule } })
  })

  it.each<[string, readonly Chunk[], Uint32Array?]>([
    ['in one part', [scores(1, 2, 3), tokenChunk(5), end]],
    ['in two parts', [scores(1, 2), scores(2, 3), tokenChunk(5), end]],
    ['in a part that is repeated', [scores(1, 2), scores(1, 2, 3), tokenChunk(5), end]],
    ['with the first token', [{ ...scores(1, 2, 3), tokenIds: [5] }, end]],
    ['with an empty part', [scores(1), scores(1, 2, 3), tokenChunk(5), end]],
    ['of a prompt of one token', [tokenChunk(5), finishChunk('length')], Uint32Array.of(1)],
  ])('log-probabilities of the prompt %s - are passed on', async (_name, items, tokenIds) => {
    const asked = { ...scored.request, tokenIds: tokenIds ?? request.tokenIds }
    expect(await outcomeOf(items, { request: asked })).toEqual({ chunks: items })
  })

  it('after a stop - only a cancelled end is allowed, but an item requested before may still arrive', () => {
    const context = new RequestContext('r')
    const check = (chunk: Chunk, isUnderWay: boolean): StreamRule | null => {
      const validator = new StreamValidator({ context })
      try {
        if (!isUnderWay) validator.pull()
        validator.chunk(chunk)
        return null
      } catch (error) {
        return brokenStreamRule(error)
      }
    }
    context.stop()
    expect(check(tokenChunk(1), false)).toBe('tokens-after-cancel')
    expect(check(textChunk('a'), false)).toBe('tokens-after-cancel')
    expect(check(finishChunk('stop'), false)).toBe('cancel-ignored')
    expect(check({ tokenIds: [] }, false)).toBe('cancel-ignored')
    expect(check(finishChunk('cancelled'), false)).toBeNull()
    expect(check(tokenChunk(1), true)).toBeNull()
  })
})

describe('validateStream - limits', () => {
  it('empty items in a row - 10,000 and one per token of the prompt may come, no more', async () => {
    const most = Array<Chunk>(10_003).fill({ tokenIds: [] })
    const valid = [...most, tokenChunk(5), ...most, tokenChunk(6), finishChunk('length')]
    expect((await outcomeOf(valid)).error).toBeUndefined()
    const { error } = await outcomeOf([...most, { tokenIds: [] }, tokenChunk(5), end])
    expect(brokenStreamRule(error)).toBe('items-empty')
  })

  it('text - 1,024 characters per token of `max_tokens` may come, no more', async () => {
    const [half, rest] = [textChunk('x'.repeat(1_024)), textChunk('x'.repeat(2 * 1_024))]
    expect((await outcomeOf([half, rest])).error).toMatchObject({
      code: 'backend.stream_incomplete',
    })
    const { error } = await outcomeOf([half, rest, textChunk('x')])
    expect(brokenStreamRule(error)).toBe('text-over-max')
  })
})
