import { describe, expect, it } from 'vitest'
import type { RequestEnd, RequestFacts } from '../../frontend/index.ts'
import { callAttributes } from './span-attributes.ts'

const idOf = (endpoint: RequestFacts['endpoint'], outcome: RequestEnd['outcome'] = 'success') => {
  const facts: RequestFacts = {
    requestId: 'r1',
    model: 'm',
    endpoint,
    streamed: false,
    traceparent: undefined,
  }
  return callAttributes(facts, { status: 200, outcome } as RequestEnd)['gen_ai.response.id']
}

describe('callAttributes', () => {
  it.each([
    ['chat_completions', 'chatcmpl-r1'],
    ['completions', 'cmpl-r1'],
    ['anthropic_messages', 'msg_r1'],
    ['responses', 'resp_r1'],
    ['embeddings', undefined],
  ] as const)('%s - the id of the answer as the client reads it', (endpoint, id) => {
    expect(idOf(endpoint)).toBe(id)
  })

  it('no answer - no id', () => {
    expect(idOf('chat_completions', 'error')).toBeUndefined()
  })
})
