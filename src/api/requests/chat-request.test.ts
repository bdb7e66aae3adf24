import { describe, expect, it } from 'vitest'
import { parseChatRequest } from './chat-request.ts'
import { parseResponsesRequest } from './responses-request.ts'

const TOOLS = ['a', 'b', 'c'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object' } },
}))
const call = (fields: Record<string, unknown>) =>
  parseChatRequest({ messages: [{ role: 'user', content: 'hi' }], ...fields })
const allowed = (mode: string, ...names: string[]) => ({
  type: 'allowed_tools',
  allowed_tools: { mode, tools: names.map((name) => ({ type: 'function', function: { name } })) },
})

describe('chat request', () => {
  it('allowed_tools - restricts the tools in the given mode', () => {
    const auto = call({ tools: TOOLS, tool_choice: allowed('auto', 'a', 'c') })
    expect(auto.tools.map((tool) => tool.function.name)).toEqual(['a', 'c'])
    expect(auto.toolChoice).toBe('auto')
    const forced = call({ tools: TOOLS, tool_choice: allowed('required', 'b') })
    expect(forced.sampling.guided).toMatchObject({ kind: 'json-schema', field: 'tools' })
    expect(JSON.stringify(forced.sampling.guided)).toContain('"const":"b"')
    expect(() => call({ tools: TOOLS, tool_choice: allowed('auto', 'x') })).toThrow('"x"')
    const { chat } = parseResponsesRequest({
      input: 'hi',
      tools: [
        { type: 'function', name: 'a' },
        { type: 'function', name: 'b' },
      ],
      tool_choice: {
        type: 'allowed_tools',
        mode: 'auto',
        tools: [{ type: 'function', name: 'b' }],
      },
    })
    expect(chat.tools.map((tool) => tool.function.name)).toEqual(['b'])
  })

  it('keys of agents inside a tool or message - are accepted without effect', () => {
    const extra = { cache_control: { type: 'ephemeral' }, input_examples: [{}] }
    const plain = call({ tools: TOOLS.slice(0, 1) })
    const [tool] = TOOLS
    const more = call({
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', ...extra }], ...extra }],
      tools: [{ ...tool, ...extra, function: { ...tool?.function, ...extra } }],
    })
    expect(more.tools).toEqual(plain.tools)
    expect(() => call({ ...extra })).toThrow('input_examples')
  })

  it('a forced tool and a response format - the call is constrained', () => {
    const { sampling } = call({
      tools: TOOLS,
      tool_choice: 'required',
      response_format: { type: 'json_object' },
    })
    expect(sampling.guided).toMatchObject({ kind: 'json-schema', field: 'tools' })
  })

  it.each([
    [{ json: { type: 'object' } }, { kind: 'json-schema', schema: { type: 'object' } }],
    [{ regex: 'a+' }, { kind: 'regex', pattern: 'a+' }],
    [{ choice: ['x'] }, { kind: 'choice', choices: ['x'] }],
    [{ grammar: 'root ::= "x"' }, { kind: 'grammar' }],
    [{ json_object: true }, { kind: 'json' }],
  ])('structured_outputs %j - is what guided_* are', (structured, guided) => {
    const { sampling } = call({ structured_outputs: structured })
    expect(sampling.guided).toMatchObject({ ...guided, field: 'structured_outputs' })
  })

  it('structured_outputs twice, or with another constraint - refused', () => {
    expect(() => call({ structured_outputs: { regex: 'a', choice: ['x'] } })).toThrow('only one of')
    expect(() => call({ structured_outputs: { regex: 'a' }, guided_regex: 'a' })).toThrow(
      'only one',
    )
  })

  it('default values of vLLM and hints - are accepted, other values are refused by name', () => {
    call({ detokenize: true, use_beam_search: false, best_of: 1, priority: 0, verbosity: 'low' })
    expect(() => call({ use_beam_search: true })).toThrow('use_beam_search')
    expect(() => call({ priority: 3 })).toThrow('priority')
    expect(() => call({ best_of: 2 })).toThrow('best_of')
  })

  it('continue_final_message - requires a last message of the assistant, and no new turn', () => {
    const messages = [{ role: 'assistant', content: 'Once' }]
    expect(call({ messages, continue_final_message: true }).continueFinalMessage).toBe(true)
    expect(() => call({ continue_final_message: true })).toThrow('assistant')
    expect(() =>
      call({ messages, continue_final_message: true, add_generation_prompt: true }),
    ).toThrow('cannot be combined')
    expect(call({ add_generation_prompt: false }).addGenerationPrompt).toBe(false)
  })

  it('prefix of Mistral and DeepSeek - continues the last message of the assistant', () => {
    const user = { role: 'user', content: 'hi' }
    const prefix = { role: 'assistant', content: 'Once', prefix: true }
    expect(call({ messages: [user, prefix] }).continueFinalMessage).toBe(true)
    expect(call({ messages: [user, { ...prefix, prefix: false }] }).continueFinalMessage).toBe(
      false,
    )
    for (const messages of [[prefix, user], [{ ...user, prefix: true }]]) {
      expect(() => call({ messages })).toThrow('prefix')
    }
  })

  it("reasoning of past turns - is also accepted under vLLM's name", () => {
    const past = (fields: object) => ({ role: 'assistant', content: 'b', ...fields })
    const of = (fields: object) => call({ messages: [past(fields)] }).messages[0]
    expect(of({ reasoning: 'a' })).toMatchObject({ reasoning_content: 'a' })
    expect(of({ reasoning: 'a', reasoning_content: 'c' })).toMatchObject({ reasoning_content: 'c' })
    expect(of({ reasoning: { x: 1 } })).not.toHaveProperty('reasoning_content')
  })

  it('json_schema without a schema, or with the schema false - is refused', () => {
    const asked = (fields: object) => () =>
      call({ response_format: { type: 'json_schema', json_schema: { name: 'x', ...fields } } })
    expect(asked({})).toThrow('json_schema.schema`: is missing')
    expect(asked({ schema: false })).toThrow('not `false`')
  })

  it('top_logprobs 0 without logprobs - requests nothing', () => {
    expect(call({ top_logprobs: 0 }).output).not.toHaveProperty('logprobs')
    expect(() => call({ top_logprobs: 1 })).toThrow('logprobs')
  })
})
