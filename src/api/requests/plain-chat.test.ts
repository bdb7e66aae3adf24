import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chatRequestSchema } from './chat-request.ts'
import { isPlainChat } from './plain-chat.ts'

const edges = [-3, -2, -1, -0.1, 0, 0.5, 1, 1.5, 2, 2.1, 128, 129, 0xffffffff, 0x100000000, 2 ** 53]
const value = fc.oneof(
  fc.constantFrom<unknown>(...edges, '', ' ', 'a', true, false, [], {}, ['a'], {
    include_usage: true,
  }),
  fc.constantFrom<unknown>(
    { include_usage: 1 },
    { other: true },
    NaN,
    Infinity,
    -(2 ** 53),
    undefined,
  ),
)
const message = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool', 'function'),
      content: fc.string(),
    }),
  },
  fc.record(
    {
      role: fc.constantFrom('user', 'other', 1),
      content: fc.oneof(fc.string(), value),
      name: value,
    },
    { requiredKeys: [] },
  ),
  value,
)
const names = Object.keys(chatRequestSchema.shape).filter((name) => name !== 'messages')
const body = fc
  .tuple(
    fc.oneof({ weight: 8, arbitrary: fc.array(message, { maxLength: 3 }) }, value),
    fc.dictionary(fc.constantFrom(...names, '__proto__', 'best_of', 'toString'), value, {
      maxKeys: 4,
    }),
  )
  .map(([messages, fields]) => ({ ...fields, messages }))

describe('a plain chat', () => {
  it('what the hand-written check accepts - the schema accepts with the same result', () => {
    fc.assert(
      fc.property(body, (given) => {
        if (isPlainChat(given)) {
          const { success, data } = chatRequestSchema.safeParse(given)
          expect(success).toBe(true)
          expect(data).toEqual(given)
        }
      }),
      { numRuns: 5000 },
    )
  })

  it('each field - agrees with the schema at, below and above its limits', () => {
    const messages = [{ role: 'user', content: 'hi' }]
    const numbers =
      'max_tokens max_completion_tokens min_tokens n temperature top_p min_p top_k seed'
    for (const name of [...numbers.split(' '), 'frequency_penalty', 'presence_penalty']) {
      for (const edge of edges) {
        const given = { messages, [name]: edge }
        expect([name, edge, isPlainChat(given)]).toEqual([
          name,
          edge,
          chatRequestSchema.safeParse(given).success,
        ])
      }
    }
  })

  it.each([
    [{ messages: [{ role: 'user', content: 'hi' }] }],
    [{ model: 'm', messages: [{ role: 'user', content: '' }], stream: true, max_tokens: 1 }],
    [{ messages: [{ role: 'user', content: 'a' }], stream_options: { include_usage: true } }],
  ])('%j', (given) => {
    expect(isPlainChat(given)).toBe(true)
  })

  it.each([
    [{}],
    [{ messages: [] }],
    [{ messages: [{ content: 'hi' }] }],
    [{ messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] }],
    [{ messages: [{ role: 'user', content: 'hi', name: 'a' }] }],
    [{ messages: [{ role: 'user', content: 'hi' }], tools: [] }],
    [{ messages: [{ role: 'user', content: 'hi' }], unknown: 1 }],
  ])('%j - the schema decides', (given) => {
    expect(isPlainChat(given)).toBe(false)
  })
})
