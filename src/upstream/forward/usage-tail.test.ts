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
