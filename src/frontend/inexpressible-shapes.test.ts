import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'
import type { Script } from '../../test/frontend/scripted-frontend.ts'
import { joined, TOOLS } from '../../test/frontend/weather-tool.ts'

const says: Script = (run) => void run.says('{}').ends('eos')

describe('shapes that no grammar can express', () => {
  const pattern = { type: 'string', pattern: '\\ba' }
  const json_schema = {
    name: 'x',
    strict: true,
    schema: { type: 'object', properties: { a: pattern } },
  }
  const tool = { type: 'function', function: { name: 'f', strict: true, parameters: { if: {} } } }
  it.each<[string, string, Record<string, unknown>, string]>([
    [
      '/v1/chat/completions',
      'response_format',
      { response_format: { type: 'json_schema', json_schema } },
      '(in the schema at /properties/a)',
    ],
    ['/v1/chat/completions', 'guided_json', { guided_json: pattern }, "'pattern'"],
    ['/v1/chat/completions', 'guided_regex', { guided_regex: '\\bx' }, 'a boundary'],
    ['/v1/chat/completions', 'guided_grammar', { guided_grammar: '('.repeat(100) }, 'nested'],
    ['/v1/chat/completions', 'tools', { tools: [tool], tool_choice: 'required' }, "'if'"],
    ['/v1/completions', 'guided_regex', { prompt: 'a', guided_regex: '(?i)a' }, 'a flag'],
    [
      '/v1/responses',
      'text.format',
      { input: 'a', text: { format: { type: 'json_schema', ...json_schema } } },
      "'pattern'",
    ],
  ])(
    '%s %s - 400 that names the keyword, and no worker is asked',
    async (path, param, fields, why) => {
      const engine = { features: ['guided', 'gbnf'] as const }
      const it_ = new ScriptedFrontend({ script: says, engine })
      const messages = [{ role: 'user', content: 'Hi' }]
      const body = path.endsWith('chat/completions') ? { messages, ...fields } : fields
      for (const stream of [false, true]) {
        const { status, json } = await it_.post(path, { ...body, stream })
        expect([status, json.error.param]).toEqual([400, param])
        expect(json.error.message).toContain(why)
      }
      expect(it_.requests).toHaveLength(0)
    },
  )

  it.each<[string, Record<string, unknown>, string]>([
    [
      '/v1/chat/completions',
      { response_format: { type: 'json_schema', json_schema: { ...json_schema, strict: false } } },
      'response_format: pattern',
    ],
    [
      '/v1/chat/completions',
      {
        tools: [{ ...tool, function: { ...tool.function, strict: undefined } }],
        tool_choice: 'required',
      },
      'tools: if',
    ],
    [
      '/v1/responses',
      { input: 'a', text: { format: { type: 'json_schema', ...json_schema, strict: undefined } } },
      'text.format: pattern',
    ],
    [
      '/v1/messages',
      {
        max_tokens: 9,
        output_config: { format: { type: 'json_schema', schema: json_schema.schema } },
      },
      'output_config.format: pattern',
    ],
  ])(
    '%s without strict - enforced as far as possible, and a header lists the rest',
    async (path, fields, said) => {
      const engine = { features: ['guided', 'gbnf'] as const }
      const messages = path.endsWith('responses')
        ? {}
        : { messages: [{ role: 'user', content: 'Hi' }] }
      for (const stream of [false, true]) {
        const it_ = new ScriptedFrontend({ script: says, engine })
        const { status, headers } = await it_.post(path, { ...messages, ...fields, stream })
        expect([status, headers['x-baton-relaxed']]).toEqual([200, said])
      }
      const plain = new ScriptedFrontend({ script: says, engine })
      expect((await plain.chat({})).headers['x-baton-relaxed']).toBeUndefined()
    },
  )

  it('tools beside a response format - the header lists the keywords of both', async () => {
    const runtimeData = { tool_call_parser: 'hermes' }
    const engine = { features: ['guided', 'gbnf'] as const, runtimeData }
    const it_ = new ScriptedFrontend({ script: says, engine })
    const parameters = { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } }
    const schema = { type: 'object', ключ: 1, if: {} }
    const { status, headers } = await it_.chat({
      tools: [{ type: 'function', function: { name: 'f', parameters } }],
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    const relaxed = 'response_format: unknown, if; tools: uniqueItems'
    expect([status, headers['x-baton-relaxed']]).toEqual([200, relaxed])
  })

  it.each([
    ['hermes', true],
    ['qwen3_coder', false],
  ])(
    'an engine that draws its texts, with calls like %s - calls only what is read as a call',
    async (parser, mayCall) => {
      const runtimeData = { tool_call_parser: parser }
      const engine = { features: ['guided', 'gbnf', 'drawn_texts'] as const, runtimeData }
      const it_ = new ScriptedFrontend({ script: says, engine })
      const parameters = { type: 'object', properties: {} }
      await it_.chat({
        tools: [{ type: 'function', function: { name: 'f', parameters } }],
        response_format: { type: 'json_object' },
      })
      const guided = JSON.stringify(it_.requests[0]?.sampling.guided)
      expect(guided.includes('<tool_call>')).toBe(mayCall)
    },
  )

  it('one forced tool - the strictness of the others does not count', async () => {
    const engine = { features: ['guided', 'gbnf'] as const }
    const it_ = new ScriptedFrontend({ script: says, engine })
    const loose = {
      type: 'function',
      function: { name: 'g', parameters: { not: { type: 'null' } } },
    }
    const exact = { type: 'function', function: { name: 'f', strict: true, parameters: {} } }
    const ask = async (choice: unknown): Promise<unknown> =>
      (await it_.chat({ tools: [loose, exact], tool_choice: choice })).status
    expect(await ask({ type: 'function', function: { name: 'g' } })).toBe(200)
    expect(await ask('required')).toBe(400)
  })

  it.each<[string, boolean]>([
    ['{"name": "wea', false],
    ['{"name": "weather"', true],
    ['{"name": "weather", "argum', true],
  ])(
    'a forced call that is cut at %s - is not text, and no call is invented',
    async (cut, isNamed) => {
      const it_ = new ScriptedFrontend({ script: (run) => void run.says(cut).ends('length') })
      const schema = { type: 'object', properties: {} }
      const chat = { tools: TOOLS, tool_choice: 'required' }
      const { choices } = (await it_.chat(chat)).json
      const message = { content: isNamed ? null : '' }
      expect(choices).toMatchObject([{ finish_reason: 'length', message }])
      const called = [{ function: { name: 'weather', arguments: '' } }]
      if (isNamed) expect(choices).toMatchObject([{ message: { tool_calls: called } }])
      else expect(choices[0].message.tool_calls).toBeUndefined()
      const { events } = await it_.chat({ ...chat, stream: true })
      expect(joined(events, 'content')).toBe('')
      expect(JSON.stringify(events).includes('"name":"weather"')).toBe(isNamed)

      const response = { input: 'hi', tools: [{ type: 'function', ...TOOLS[0]?.function }] }
      const asked = { ...response, tool_choice: 'required' }
      const { json } = await it_.post('/v1/responses', asked)
      expect(json).toMatchObject({
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
      })
      const item = { type: 'function_call', name: 'weather', arguments: '', status: 'incomplete' }
      expect(json.output).toMatchObject(isNamed ? [item] : [])
      const streamed = await it_.post('/v1/responses', { ...asked, stream: true })
      const last = streamed.events.find(({ type }) => type === 'response.incomplete')
      expect(last.response.output).toMatchObject(isNamed ? [item] : [])

      const toMessages = {
        max_tokens: 9,
        messages: [{ role: 'user', content: 'hi' }],
        tools: [{ name: 'weather', input_schema: schema }],
        tool_choice: { type: 'any' },
      }
      const whole = (await it_.post('/v1/messages', toMessages)).json
      expect(whole.stop_reason).toBe('max_tokens')
      const block = { type: 'tool_use', name: 'weather', input: {} }
      expect(whole.content).toMatchObject(isNamed ? [block] : [])
      const told = await it_.post('/v1/messages', { ...toMessages, stream: true })
      const blocks = told.events.filter(({ type }) => type === 'content_block_start')
      expect(blocks.map((event) => event.content_block)).toMatchObject(isNamed ? [block] : [])
    },
  )

  it('an engine with its own grammars - gets the request', async () => {
    const it_ = new ScriptedFrontend({ script: says, engine: { features: ['guided'] } })
    expect((await it_.chat({ guided_json: pattern })).status).toBe(200)
    expect(it_.requests[0]?.sampling.guided).toEqual({
      kind: 'json-schema',
      schema: pattern,
      field: 'guided_json',
    })
  })
})
