import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseExactJson } from '../../base/index.ts'
import { ChatTemplate, modelTextFromHuggingFace, renderChat } from '../../text/index.ts'
import { readJsonObject } from '../fields/json-body.ts'
import { parseAnthropicMessages } from './anthropic-request.ts'
import { parseChatRequest } from './chat-request.ts'
import { parseResponsesRequest } from './responses-request.ts'
import type { ChatCall } from './chat-request.ts'

const ID = '12345678901234567891'
const readJson = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../models/storyteller/${name}`, import.meta.url), 'utf8'))
const { tokenizer } = modelTextFromHuggingFace({
  tokenizer: readJson('tokenizer.json'),
  tokenizerConfig: readJson('tokenizer_config.json'),
})
const EACH_CALL = '{% for m in messages if m.tool_calls %}{% for c in m.tool_calls %}'
const ENDS = '{% endfor %}{% endfor %}'
/** The compiler knows `tojson`, the interpreter is needed for `indent` and for a macro. */
const TEMPLATES = {
  json: `${EACH_CALL}{{ c.function.arguments | tojson }}${ENDS}`,
  'json of the interpreter': `${EACH_CALL}{{ c.function.arguments | tojson(indent=1) }}${ENDS}`,
  'member by member': `${EACH_CALL}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}${ENDS}`,
  'a macro': `{% macro show(v) %}{% if v is string %}{{ v }}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}${EACH_CALL}{% for k, v in c.function.arguments.items() %}{{ k }}={{ show(v) }};{% endfor %}${ENDS}`,
}

const body = (json: string) => readJsonObject(new TextEncoder().encode(json), 'application/json')
const CALLS: Readonly<Record<string, ChatCall>> = {
  Anthropic: parseAnthropicMessages(
    body(
      `{"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"find","input":{"id":${ID},"n":5}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}]}`,
    ),
  ),
  'chat, arguments as text': parseChatRequest(
    body(
      `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"find","arguments":"{\\"id\\":${ID},\\"n\\":5}"}}]}]}`,
    ),
  ),
  'chat, arguments as an object': parseChatRequest(
    body(
      `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"find","arguments":{"id":${ID},"n":5}}}]}]}`,
    ),
  ),
  Responses: parseResponsesRequest(
    body(
      `{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"t1","name":"find","arguments":"{\\"id\\":${ID},\\"n\\":5}"}]}`,
    ),
  ).chat,
}

describe.each(Object.entries(CALLS))(
  'integers beyond 2^53 in an earlier call of %s',
  (_api, call) => {
    it.each(Object.entries(TEMPLATES))('reach the model with every digit - %s', (_name, source) => {
      const messages = call.messages.map((message) => ({ ...message }))
      const { text } = renderChat(new ChatTemplate(source), tokenizer, { messages })
      expect(text).toContain(ID)
      expect(text).not.toMatch(/integer|"12345/)
      expect(text).toMatch(/5/)
    })

    it('also where the last message is continued', () => {
      const messages = [...call.messages, { role: 'assistant', content: 'So' }].map((m) => ({
        ...m,
      }))
      const source = `${TEMPLATES.json}{{ messages[-1].content }}`
      const input = { messages, continueFinalMessage: true }
      expect(renderChat(new ChatTemplate(source), tokenizer, input).text).toMatch(
        /12345678901234567891.*So$/,
      )
    })
  },
)

describe('the rest of a body', () => {
  it('large integers in the schema of a tool - keep their digits; in a text they are text', () => {
    const schema = `{"type":"object","properties":{"id":{"type":"integer","maximum":${ID}}}}`
    const call = parseAnthropicMessages(
      body(
        `{"max_tokens":9,"messages":[{"role":"user","content":"\\"tool_use\\" ${ID}"}],"tools":[{"name":"find","input_schema":${schema}}]}`,
      ),
    )
    expect(call.tools[0]?.function.parameters).toEqual(parseExactJson(schema))
  })

  it('a text that looks like a placeholder for an integer - stays text', () => {
    const messages = [
      { role: 'user', content: 'largeinteger(5) "LargeIntegerx(6)"' },
      { role: 'assistant', tool_calls: [{ function: { arguments: { id: BigInt(ID) } } }] },
    ]
    const source = `{{ messages[0].content }}|${TEMPLATES['json of the interpreter']}`
    const { text } = renderChat(new ChatTemplate(source), tokenizer, { messages })
    expect(text.startsWith('largeinteger(5) "LargeIntegerx(6)"|')).toBe(true)
    expect(text).toContain(`: ${ID}`)
  })
})
