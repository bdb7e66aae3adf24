import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'
import type { Script } from '../../test/frontend/scripted-frontend.ts'
import { joined, TOOLS } from '../../test/frontend/weather-tool.ts'

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
