import { describe, expect, it } from 'vitest'
import { conversationOf } from './response-conversation.ts'

describe('function calls in a row', () => {
  // A copy of the list per call would take minutes.
  it('many - become one message of the assistant, in order', () => {
    const count = 300_000
    const input = Array.from({ length: count }, (_, at) => ({
      type: 'function_call' as const,
      call_id: `c${at}`,
      name: 'f',
      arguments: '{}',
    }))
    const { messages, places } = conversationOf({ input })
    expect(messages).toHaveLength(1)
    const { tool_calls: calls } = messages[0] as { readonly tool_calls: readonly { id: string }[] }
    expect(calls.map(({ id }) => id)).toEqual(input.map((item) => item.call_id))
    expect(places).toEqual([{ at: 'input[0]', isOutput: false }])
  })
})
