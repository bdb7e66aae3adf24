import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'
import type { Script } from '../../test/frontend/scripted-frontend.ts'

const TOOLS = [
  {
    type: 'function',
    function: { name: 'weather', parameters: { type: 'object', properties: {} } },
  },
]
const CALL = (city: string) =>
  `<tool_call>\n{"name": "weather", "arguments": {"city": "${city}"}}\n</tool_call>`

function start(script: Script) {
  return new ScriptedFrontend({
    script,
    engine: { runtimeData: { reasoning_parser: 'qwen3', tool_call_parser: 'hermes' } },
  })
}

const says =
  (words: string): Script =>
  (run) =>
    void run.says(words).ends('eos')

/** The deltas of a stream, joined per field. */
// oxlint-disable-next-line typescript/no-explicit-any -- JSON of any shape
function joined(events: any[], field: string): string {
  return events
    .filter((event) => event !== '[DONE]')
    .map((event) => event.choices[0]?.delta[field] ?? '')
    .join('')
}

describe('reasoning', () => {
  it('reasoning is reasoning_content, whole and streamed', async () => {
    const it_ = start(says('<think>Hm, well.</think>Yes.'))
    const { message } = (await it_.chat()).json.choices[0]
    expect(message).toMatchObject({ content: 'Yes.', reasoning_content: 'Hm, well.' })
    const { events } = await it_.chat({ stream: true })
    expect(joined(events, 'reasoning_content')).toBe('Hm, well.')
    expect(joined(events, 'content')).toBe('Yes.')
  })

  it('reasoning is detected without a flag when the vocabulary has the tags', async () => {
    const it_ = new ScriptedFrontend({ script: says('<think>Hm, well.</think>Yes.') })
    const { message } = (await it_.chat()).json.choices[0]
    expect(message).toMatchObject({ content: 'Yes.', reasoning_content: 'Hm, well.' })
  })

  it('reasoning tokens are counted; responses have a reasoning item, whole and streamed', async () => {
    const [thought, answer] = ['<think>Hm, well, let me see.', '</think>Yes, of course.']
    const { tokenizer } = storyteller()
    const count = (words: string) => tokenizer.encode(words, { special: true }).length
    const it_ = start((run) => void run.says(thought).says(answer).ends('eos'))
    const ask = (fields: object) => it_.post('/v1/responses', { input: 'hi', ...fields })
    const { json } = await ask({})
    const { events } = await ask({ stream: true })
    const done = events.find((event) => event.type === 'response.completed')
    for (const { output, usage } of [json, done.response]) {
      expect(output.map((item: { type: string }) => item.type)).toEqual(['reasoning', 'message'])
      expect(usage).toMatchObject({
        output_tokens: count(thought) + count(answer),
        output_tokens_details: { reasoning_tokens: count(thought) },
      })
    }
    const types = events.map((event) => event.type).filter((type) => !/delta$/.test(type))
    expect(types.slice(2, 7)).toEqual([
      'response.output_item.added',
      'response.content_part.added',
      'response.reasoning_text.done',
      'response.content_part.done',
      'response.output_item.done',
    ])
    const { usage } = (await it_.chat()).json
    expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: count(thought) })
    it_.script = says('No thought.')
    expect((await it_.chat()).json.usage.completion_tokens_details).toBeUndefined()
    expect((await ask({})).json.usage.output_tokens_details.reasoning_tokens).toBe(0)
  })

  it('inside guided output - tags are text', async () => {
    const text = '{"a": "<think>b</think><tool_call>"}'
    const it_ = start(says(text))
    const response_format = { type: 'json_object' }
    const { message } = (await it_.chat({ response_format, tools: TOOLS })).json.choices[0]
    expect(message.content).toBe(text)
  })

  it('thinking turned off by the template’s switch - the output is the answer', async () => {
    const engine = { runtimeData: { reasoning_parser: 'deepseek_r1' } }
    for (const [fields, content] of [
      [{}, null],
      [{ chat_template_kwargs: { enable_thinking: false } }, 'Yes.'],
      [{ chat_template_args: { thinking: false } }, 'Yes.'],
      [{ chat_template_kwargs: { thinking_mode: 'disabled' } }, 'Yes.'],
    ] as const) {
      const it_ = new ScriptedFrontend({ script: says('Yes.'), engine })
      const { message } = (await it_.chat(fields)).json.choices[0]
      expect([fields, message.content || null]).toEqual([fields, content])
    }
  })

  it('max_thinking_tokens - the thought is closed, and the answer follows', async () => {
    const thought = 'one two three four five six seven eight'
    const it_ = start((run, nth) => {
      if (nth === 0) run.says(`<think>${thought}`)
      else run.says('Yes.').ends('eos')
    })
    const limit = 8
    const pending = it_.chat({ max_tokens: 100, nvext: { max_thinking_tokens: limit } })
    await it_.clock.run(1)
    expect(it_.runs[0]?.cancels).toEqual(['stop'])
    it_.runs[0]?.says('late').ends('cancelled')
    const { json } = await pending
    expect(json.choices[0].message.content.trim()).toBe('Yes.')
    expect(`<think>${thought}`).toContain(json.choices[0].message.reasoning_content.trim())
    const [first, second] = it_.requests
    const { tokenizer } = storyteller()
    const added = second?.tokenIds.subarray(first?.tokenIds.length ?? 0) ?? new Uint32Array()
    expect(tokenizer.decode(added)).toMatch(/^<think>[\s\S]*\n<\/think>\n\n$/)
    expect(second?.resumedTokens).toBe(added.length)
    expect(second?.stop.maxTokens).toBe(100 - added.length)
    expect(json.usage.completion_tokens).toBeGreaterThan(added.length)
  })

  it('max_thinking_tokens - a model that does not think, or closes in time, is not affected', async () => {
    for (const words of [
      'No thoughts at all, only a long text.',
      '<think>a</think>then a long text',
    ]) {
      const it_ = start(says(words))
      await it_.chat({ nvext: { max_thinking_tokens: 12 } })
      expect(it_.runs).toHaveLength(1)
      expect(it_.runs[0]?.cancels).toEqual([])
    }
  })
})

describe('tools', () => {
  it('calls stream as deltas: id and name, then arguments', async () => {
    const it_ = start(says(`${CALL('Oslo')}\n${CALL('Rome')}`))
    const { events } = await it_.chat({ tools: TOOLS, stream: true })
    const calls: { id?: string; name: string; arguments: string }[] = []
    for (const event of events.slice(0, -1)) {
      for (const delta of event.choices[0].delta.tool_calls ?? []) {
        const call = (calls[delta.index] ??= { name: '', arguments: '' })
        if (delta.id !== undefined) call.id = delta.id
        call.name += delta.function.name ?? ''
        call.arguments += delta.function.arguments
      }
    }
    expect(calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([
      ['weather', { city: 'Oslo' }],
      ['weather', { city: 'Rome' }],
    ])
    expect(new Set(calls.map((call) => call.id)).size).toBe(2)
    expect(events.at(-2).choices[0].finish_reason).toBe('tool_calls')
  })

  it('arguments stream while the model writes them; whole and streamed replies are equal', async () => {
    const words = CALL('a city with a rather long name, é🦊')
    const { events } = await start(says(words)).chat({ tools: TOOLS, stream: true })
    const deltas = events
      .slice(0, -1)
      .flatMap((event) => event.choices[0].delta.tool_calls ?? [])
      .map((call) => call.function.arguments ?? '')
    expect(deltas.filter((text) => text !== '').length).toBeGreaterThan(5)
    const { json } = await start(says(words)).chat({ tools: TOOLS })
    const [call] = json.choices[0].message.tool_calls
    expect(deltas.join('')).toBe(call.function.arguments)
    expect(JSON.parse(call.function.arguments).city).toContain('é🦊')
  })

  it('parallel_tool_calls false - only the first call', async () => {
    const it_ = start(says(`${CALL('Oslo')}\n${CALL('Rome')}`))
    const fields = { tools: TOOLS, parallel_tool_calls: false }
    expect((await it_.chat(fields)).json.choices[0].message.tool_calls).toHaveLength(1)
    expect((await it_.chat({ ...fields, stream: true })).sse).not.toContain('Rome')
  })

  it.each([false, true])(
    'parallel_tool_calls false, stream %s - a second call ends the choice and stops the worker',
    async (stream) => {
      const it_ = start((run) => void run.says(`${CALL('Oslo')}\n${CALL('Rome')}`))
      const fields = { tools: TOOLS, parallel_tool_calls: false, stream }
      const answer = await it_.chat(fields)
      const choice = stream ? answer.events.at(-2).choices[0] : answer.json.choices[0]
      expect(choice.finish_reason).toBe('tool_calls')
      expect(it_.runs[0]?.cancels).toEqual(['stop'])
      it_.runs[0]?.says('late').ends('cancelled')
    },
  )

  it('parallel_tool_calls true, or one call and text - nothing is cancelled', async () => {
    const two = start(says(`${CALL('Oslo')}\n${CALL('Rome')}`))
    await two.chat({ tools: TOOLS, parallel_tool_calls: true })
    expect(two.runs[0]?.cancels).toEqual([])
    const one = start(says(`${CALL('Oslo')} and text`))
    const { json } = await one.chat({ tools: TOOLS, parallel_tool_calls: false })
    expect(json.choices[0].message.content).toContain('and text')
    expect(one.runs[0]?.cancels).toEqual([])
  })

  it('tool_choice none - the text stays text, and the template gets no tools', async () => {
    const it_ = start(says(CALL('Oslo')))
    const { json } = await it_.chat({ tools: TOOLS, tool_choice: 'none' })
    expect(json.choices[0].message.content).toBe(CALL('Oslo'))
    const prompt = storyteller().tokenizer.decode(it_.requests[0]?.tokenIds ?? [])
    expect(prompt).not.toContain('weather')
  })

  it('tool_choice required - a schema for the engine, a call for the client', async () => {
    const it_ = start(says('{"name":"weather","arguments":{"city":"Oslo"}}'))
    const { json } = await it_.chat({ tools: TOOLS, tool_choice: 'required' })
    expect(it_.requests[0]?.sampling.guided?.kind).toBe('json-schema')
    expect(json.choices[0].message.tool_calls[0].function).toEqual({
      name: 'weather',
      arguments: '{"city":"Oslo"}',
    })
  })

  it('tool_choice required, streamed - the name first, then the arguments as they arrive', async () => {
    const it_ = start(says('{"name": "weather", "arguments": {"city": "Oslo by the sea"}}'))
    const { events } = await it_.chat({ tools: TOOLS, tool_choice: 'required', stream: true })
    const calls = events
      .slice(0, -1)
      .flatMap((event) => event.choices[0].delta.tool_calls ?? [])
      .map((call) => call.function)
    expect(calls[0]).toMatchObject({ name: 'weather' })
    expect(calls.length).toBeGreaterThan(4)
    expect(calls.map((call) => call.arguments ?? '').join('')).toBe('{"city": "Oslo by the sea"}')
    expect(events.at(-2).choices[0].finish_reason).toBe('tool_calls')
  })

  it('a call cut off by max_tokens - finish is length', async () => {
    const it_ = start((run) => void run.says('{"name":"weather","argu').ends('length'))
    const { json } = await it_.chat({ tools: TOOLS, tool_choice: 'required' })
    expect(json.choices[0].finish_reason).toBe('length')
  })
})

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
      const it_ = new ScriptedFrontend({ script: says('{}'), engine })
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
        const it_ = new ScriptedFrontend({ script: says('{}'), engine })
        const { status, headers } = await it_.post(path, { ...messages, ...fields, stream })
        expect([status, headers['x-baton-relaxed']]).toEqual([200, said])
      }
      const plain = new ScriptedFrontend({ script: says('{}'), engine })
      expect((await plain.chat({})).headers['x-baton-relaxed']).toBeUndefined()
    },
  )

  it('tools beside a response format - the header lists the keywords of both', async () => {
    const runtimeData = { tool_call_parser: 'hermes' }
    const engine = { features: ['guided', 'gbnf'] as const, runtimeData }
    const it_ = new ScriptedFrontend({ script: says('{}'), engine })
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
      const it_ = new ScriptedFrontend({ script: says('{}'), engine })
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
    const it_ = new ScriptedFrontend({ script: says('{}'), engine })
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
    const it_ = new ScriptedFrontend({ script: says('{}'), engine: { features: ['guided'] } })
    expect((await it_.chat({ guided_json: pattern })).status).toBe(200)
    expect(it_.requests[0]?.sampling.guided).toEqual({
      kind: 'json-schema',
      schema: pattern,
      field: 'guided_json',
    })
  })
})
