import { describe, expect, it } from 'vitest'
import { refusal } from '../../../test/api/refusal.ts'
import { parseAnthropicMessages } from '../requests/anthropic-request.ts'
import { parseChatRequest } from '../requests/chat-request.ts'
import { parseResponsesRequest } from '../requests/responses-request.ts'

const MOST = 100_000
const repeat = (count: number, text: string) => Array.from({ length: count }, () => text).join()
/** An object with one list: as many values as `elements`, and two. */
const listJson = (elements: number, element = '"x"') => `{"a":[${repeat(elements, element)}]}`
const nested = (depth: number, inner = '1') =>
  `${'{"a":'.repeat(depth)}${inner}${'}'.repeat(depth)}`

const QUESTION = { role: 'user', content: 'hi' }
const chat = (calls: readonly unknown[], more: object = {}) =>
  parseChatRequest({ messages: [QUESTION, { role: 'assistant', tool_calls: calls }], ...more })
const call = (text: unknown) => ({ type: 'function', function: { name: 'f', arguments: text } })
const given = (text: string): unknown =>
  chat([call(text)]).messages[1]?.tool_calls?.[0]?.function.arguments

/** Two messages and one call are values, too. */
const AROUND = 3
const REFUSED = expect.objectContaining({
  code: 'request.invalid_argument',
  message: `\`messages\`: messages, arguments of tool calls, tools and template variables have more than ${MOST} values`,
})

describe('arguments of a tool call as a text of JSON', () => {
  it.each(['"x"', '1', '{}'])(
    'values of the kind %s - parsed up to the limit, refused beyond',
    (element) => {
      const most = MOST - AROUND - 2
      for (const count of [most - 1, most]) {
        expect(given(listJson(count, element))).toHaveProperty(`a[${count - 1}]`)
      }
      expect(() => given(listJson(most + 1, element))).toThrow(REFUSED)
    },
  )

  it('many texts - their values count together, also those of short texts', () => {
    const short = call(listJson(97))
    const calls = (count: number) => Array.from({ length: count }, () => short)
    expect(() => chat(calls(999))).not.toThrow()
    expect(() => chat(calls(1000))).toThrow(REFUSED)
  })

  it('values together with those of tools and template variables', () => {
    const calls = [call(listJson(50_000))]
    const parameters = { enum: Array.from({ length: 50_000 }, () => 'x') }
    const tools = [{ type: 'function', function: { name: 'f', parameters } }]
    expect(refusal(() => chat(calls, { tools }))).toMatchObject({ data: { param: 'tools' } })
    for (const param of ['chat_template_kwargs', 'chat_template_args']) {
      const error = refusal(() => chat(calls, { [param]: parameters }))
      expect(error).toMatchObject({ code: 'request.invalid_argument', data: { param } })
    }
  })

  it('nesting - parsed up to 1,000 levels, refused beyond', () => {
    for (const depth of [999, 1000]) expect(given(nested(depth))).toHaveProperty('a.a.a')
    for (const depth of [1001, 20_000]) {
      expect(() => given(nested(depth))).toThrow(
        expect.objectContaining({
          code: 'request.invalid_argument',
          message: '`messages`: the arguments of a tool call are nested more than 1000 deep',
        }),
      )
    }
  })

  it.each([
    ['not closed', '{"a":'.repeat(MOST)],
    ['a list', `[${repeat(2 * MOST, '"x"')}]`],
    ['nested lists with large integers', `${'['.repeat(9999)}${'9'.repeat(20)}${']'.repeat(9999)}`],
    ['a sentence', repeat(2 * MOST, 'so')],
    ['a brace and a sentence', `{${repeat(900, 'so')}}`],
  ])('no object (%s) - stays a text', (_, text) => {
    expect(given(text)).toBe(text)
  })
})

describe('the same limit', () => {
  it('arguments as an object', () => {
    expect(() => chat([call(JSON.parse(listJson(MOST - AROUND - 2)))])).not.toThrow()
    expect(() => chat([call(JSON.parse(listJson(MOST - AROUND - 1)))])).toThrow(REFUSED)
  })

  it('messages', () => {
    const messages = (count: number) => Array.from({ length: count }, () => QUESTION)
    expect(parseChatRequest({ messages: messages(MOST) }).messages).toHaveLength(MOST)
    expect(() => parseChatRequest({ messages: messages(MOST + 1) })).toThrow(REFUSED)
  })

  it('a function call of the Responses API, and a tool use of the Anthropic API', () => {
    const text = listJson(MOST)
    const item = { type: 'function_call', call_id: 'c', name: 'f', arguments: text }
    expect(refusal(() => parseResponsesRequest({ input: [item] }))).toMatchObject({
      code: 'request.invalid_argument',
      data: { param: 'input' },
    })
    const use = { type: 'tool_use', id: 'c', name: 'f', input: JSON.parse(text) as unknown }
    const result = { type: 'tool_result', tool_use_id: 'c', content: 'x' }
    const messages = [
      QUESTION,
      { role: 'assistant', content: [use] },
      { role: 'user', content: [result] },
    ]
    expect(() => parseAnthropicMessages({ messages, max_tokens: 1 })).toThrow(REFUSED)
  })
})

describe('a schema as a text of JSON', () => {
  const SCHEMA_MOST = 256 * 1024
  const FIELDS = {
    guided_json: (text: string) => ({ guided_json: text }),
    'structured_outputs.json': (text: string) => ({ structured_outputs: { json: text } }),
  }
  describe.each(Object.entries(FIELDS))('%s', (field, fieldsOf) => {
    const schema = (text: string) => parseChatRequest({ messages: [QUESTION], ...fieldsOf(text) })

    it('values - parsed up to the limit, refused beyond', () => {
      // The object and its list count, and the first element has no comma.
      const most = SCHEMA_MOST - 1
      for (const count of [most - 1, most]) expect(() => schema(listJson(count))).not.toThrow()
      expect(refusal(() => schema(listJson(most + 1)))).toMatchObject({
        code: 'request.invalid_argument',
        message: `\`${field}\`: holds more than ${SCHEMA_MOST} values`,
      })
      expect(refusal(() => schema(listJson(SCHEMA_MOST + 2, '1')))).toMatchObject({
        message: `\`${field}\`: lists more than ${SCHEMA_MOST} numbers`,
      })
    })

    it('nesting - up to 1,000 levels', () => {
      for (const depth of [998, 999]) expect(() => schema(nested(depth, '{}'))).not.toThrow()
      for (const depth of [1000, 20_000]) {
        expect(refusal(() => schema(nested(depth, '{}')))).toMatchObject({
          code: 'request.invalid_argument',
          message: `\`${field}\`: is nested more than 1000 deep`,
        })
      }
    })

    it('a text that is not JSON, or no object', () => {
      for (const text of ['{', '{"a":', '{]', 'x']) {
        expect(() => schema(text)).toThrow(`\`${field}\`: is a text that is not JSON`)
      }
      expect(() => schema('[1]')).toThrow(`\`${field}\`: must be a JSON schema object`)
    })
  })
})
