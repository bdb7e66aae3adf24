import { describe, expect, it } from 'vitest'
import { UsageOfEvents, usageOfWhole, UsageTail } from './usage-tail.ts'

const NULLS = 'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n'
const TOLD = 'data: {"choices":[],"usage": {"prompt_tokens":7,"completion_tokens":3}}\n\n'
const SAID = 'data: {"choices":[{"delta":{"content":"\\"usage\\":{\\"prompt_tokens\\":99}"}}]}\n\n'

function of(texts: readonly string[]): unknown {
  const events = new UsageOfEvents()
  for (const text of texts) events.push(text)
  return events.usage()
}

describe('UsageOfEvents', () => {
  it.each([
    ['in an event of its own', [NULLS, NULLS, TOLD, 'data: [DONE]\n\n']],
    ['with others in one read', [NULLS + NULLS, TOLD + NULLS]],
    ['before events that say null', [TOLD, NULLS, NULLS]],
    ['and the model talks of it', [TOLD, SAID]],
    ['in the last event', [`${NULLS}${TOLD.replace('[]', '[{"finish_reason":"stop"}]')}`]],
  ])('%s - is found', (_name, texts) => {
    expect(of(texts)).toMatchObject({ promptTokens: 7, completionTokens: 3 })
  })

  it('reported with every event - the last one counts', () => {
    const early = TOLD.replace(':3}', ':1}')
    expect(of([early, TOLD])).toMatchObject({ completionTokens: 3 })
  })

  it('the prompt in the first event, the answer in the last - both count', () => {
    const start = 'event: message_start\ndata: {"message":{"usage":{"input_tokens":7}}}\n\n'
    const end = 'event: message_delta\ndata: {"usage":{"output_tokens":3}}\n\n'
    expect(of([start, NULLS, end])).toMatchObject({ promptTokens: 7, completionTokens: 3 })
  })

  it.each([[[NULLS, NULLS]], [[SAID]], [[]], [['data: {"usage":']], [['data: {"usage":{']]])(
    '%j - contains no usage',
    (texts) => {
      expect(of(texts)).toBe(null)
    },
  )
})

describe('UsageTail', () => {
  it('pieces that are cut anywhere - the usage at the end is found', () => {
    const text = `${'x'.repeat(30_000)}${TOLD}`
    for (const size of [1, 7, 8191, 8192, 8193]) {
      const tail = new UsageTail()
      for (let at = 0; at < text.length; at += size) tail.push(text.slice(at, at + size))
      expect(tail.usage()).toMatchObject({ promptTokens: 7, completionTokens: 3 })
    }
  })
})

describe('usageOfWhole', () => {
  it('usage followed by more text than any tail - is found', () => {
    const text = `{"usage":{"prompt_tokens":7,"completion_tokens":3},"x":"${'y'.repeat(50_000)}"}`
    expect(usageOfWhole(text)).toMatchObject({ promptTokens: 7, completionTokens: 3 })
  })
})

describe('cached tokens', () => {
  const MAX = 4294967295
  const usage = (fields: object) => usageOfWhole(JSON.stringify({ usage: fields }))
  const details = (cached: unknown) => ({ prompt_tokens_details: { cached_tokens: cached } })

  it.each([
    [7, 6, 6],
    [7, 7, 7],
    [7, 8, 7],
    [7, MAX, 7],
    [0, 1, 0],
    [MAX, MAX, MAX],
  ])('of a prompt of %i tokens, %i are reported - %i count', (prompt, cached, counted) => {
    const told = usage({ prompt_tokens: prompt, completion_tokens: 1, ...details(cached) })
    expect(told).toMatchObject({ promptTokens: prompt, cachedTokens: counted })
    const input = { input_tokens: prompt, input_tokens_details: { cached_tokens: cached } }
    expect(usage(input)).toMatchObject({ promptTokens: prompt, cachedTokens: counted })
  })

  it.each([undefined, null, 1.5, -1, MAX + 1, 1e300, '7'])(
    'of a prompt whose length (%s) cannot be read - do not count',
    (prompt) => {
      const told = usage({ prompt_tokens: prompt, completion_tokens: 3, ...details(99) })
      expect(told).toEqual({ promptTokens: 0, completionTokens: 3, totalTokens: 3 })
    },
  )

  it.each([1.5, -1, MAX + 1, 1e12])('%s of them - are not counted', (cached) => {
    const told = usage({ prompt_tokens: 7, completion_tokens: 3, ...details(cached) })
    expect(told).toEqual({ promptTokens: 7, completionTokens: 3, totalTokens: 10 })
  })

  it('beside the others, as in the Anthropic API - are a part of the prompt', () => {
    const start =
      'event: message_start\ndata: {"message":{"usage":{"input_tokens":7,"cache_read_input_tokens":90,"cache_creation_input_tokens":3}}}\n\n'
    for (const end of ['{"output_tokens":3}', '{"input_tokens":7,"output_tokens":3}']) {
      const delta = `event: message_delta\ndata: {"usage":${end}}\n\n`
      expect(of([start, delta])).toMatchObject({ promptTokens: 100, cachedTokens: 90 })
    }
    const most = { input_tokens: MAX, cache_read_input_tokens: MAX }
    expect(usage(most)).toMatchObject({ promptTokens: MAX, cachedTokens: MAX })
  })

  it("in the fields of both APIs, as gateways say them - are in OpenAI's count of the prompt already", () => {
    const fields = { cache_read_input_tokens: 90, cache_creation_input_tokens: 3 }
    const counted = { promptTokens: 100, cachedTokens: 90, totalTokens: 103 }
    for (const told of [
      { prompt_tokens: 100, completion_tokens: 3, ...fields },
      { prompt_tokens: 100, completion_tokens: 3, ...fields, ...details(90) },
      {
        input_tokens: 100,
        output_tokens: 3,
        ...fields,
        input_tokens_details: { cached_tokens: 90 },
      },
    ]) {
      expect(usage(told)).toMatchObject(counted)
    }
  })
})
