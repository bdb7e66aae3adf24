import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { Output, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'

const WEATHER = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
} as const
const ANSWER = {
  type: 'object',
  properties: { sunny: { type: 'boolean' }, note: { type: 'string', maxLength: 30 } },
  required: ['sunny', 'note'],
  additionalProperties: false,
} as const
const QUESTION = 'What is the weather in Paris?'
const THINKING = 'Simon has a pink rope. What does Simon have? /think'
const tools = [
  {
    type: 'function' as const,
    function: { name: 'get_weather', description: 'Weather of a city', parameters: WEATHER },
  },
]
const response_format = {
  type: 'json_schema' as const,
  json_schema: { name: 'answer', strict: true, schema: ANSWER },
}

function isAnswer(text: string): boolean {
  const value = JSON.parse(text) as Record<string, unknown>
  return (
    Object.keys(value).toSorted().join() === 'note,sunny' && typeof value['sunny'] === 'boolean'
  )
}

describe('tools and a response schema in one request', () => {
  let server: RunningServer
  let openai: OpenAI
  let anthropic: Anthropic
  beforeAll(async () => {
    server = await startServer([])
    openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 })
    anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(async () => {
    await server.stop()
  })

  const model = () =>
    createOpenAICompatible({
      name: 'baton',
      baseURL: `${server.url}/v1`,
      supportsStructuredOutputs: true,
    })('storyteller')

  it('AI SDK, generateText with tools and Output.object - calls first, then answers', async () => {
    const request = {
      model: model(),
      prompt: QUESTION,
      temperature: 0,
      maxOutputTokens: 200,
      stopWhen: stepCountIs(2),
      output: Output.object({ schema: jsonSchema<{ sunny: boolean; note: string }>(ANSWER) }),
      tools: {
        get_weather: tool({
          description: 'Weather of a city',
          inputSchema: jsonSchema<{ city: string }>(WEATHER),
          execute: ({ city }) => Promise.resolve(`sunny in ${city}`),
        }),
      },
    }
    const result = await generateText(request)
    expect(result.steps.map((step) => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(result.steps[0]?.toolCalls[0]?.input).toEqual({ city: 'Paris' })
    expect(typeof result.output.sunny).toBe('boolean')
    const streamed = streamText(request)
    await streamed.consumeStream()
    expect((await streamed.steps).map((step) => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(await streamed.output).toEqual(result.output)
  })

  it('chat - auto may call or answer, none answers, required calls; streamed or not', async () => {
    const ask = (fields: object) => ({
      model: 'storyteller',
      temperature: 0,
      max_tokens: 300,
      messages: [{ role: 'user' as const, content: QUESTION }],
      tools,
      response_format,
      ...fields,
    })
    const auto = await openai.chat.completions.create(ask({}))
    expect(auto.choices[0]?.finish_reason).toBe('tool_calls')
    const streamed = openai.chat.completions.stream(ask({}))
    expect((await streamed.finalMessage()).tool_calls?.[0]).toMatchObject({
      function: { name: 'get_weather', arguments: expect.stringContaining('Paris') as string },
    })
    const none = await openai.chat.completions.create(ask({ tool_choice: 'none' }))
    expect(isAnswer(none.choices[0]?.message.content ?? '')).toBe(true)
    const required = await openai.chat.completions.create(ask({ tool_choice: 'required' }))
    expect(required.choices[0]?.finish_reason).toBe('tool_calls')
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const { choices } = await openai.chat.completions.create(ask({ temperature: 1.5, seed }))
      const [first] = choices
      if (first?.finish_reason === 'length') continue
      const [call] = first?.message.tool_calls ?? []
      if (call === undefined) expect(isAnswer(first?.message.content ?? '')).toBe(true)
      else if (call.type === 'function')
        expect(Object.keys(JSON.parse(call.function.arguments) as object)).toEqual(['city'])
    }
  })

  it('chat - a reasoning model thinks before the constrained output, also before a forced call', async () => {
    const ask = {
      model: 'storyteller',
      temperature: 0,
      max_tokens: 300,
      messages: [{ role: 'user' as const, content: THINKING }],
    }
    const shaped = await openai.chat.completions.create({ ...ask, response_format })
    const [first] = shaped.choices
    expect(first?.finish_reason).toBe('stop')
    expect(isAnswer(first?.message.content ?? '')).toBe(true)
    expect(first?.message).toMatchObject({
      reasoning_content: expect.stringContaining('Simon') as string,
    })
    const forced = await openai.chat.completions.create({ ...ask, tools, tool_choice: 'required' })
    expect(forced.choices[0]?.message.tool_calls).toHaveLength(1)
    expect(forced.choices[0]?.message).toMatchObject({
      reasoning_content: expect.stringContaining('Simon') as string,
    })
  })

  it('responses - text.format works with tools and with a forced tool', async () => {
    const ask = (fields: object) => ({
      model: 'storyteller',
      temperature: 0,
      max_output_tokens: 300,
      input: QUESTION,
      tools: [
        { type: 'function' as const, name: 'get_weather', strict: true, parameters: WEATHER },
      ],
      text: {
        format: { type: 'json_schema' as const, name: 'answer', strict: true, schema: ANSWER },
      },
      ...fields,
    })
    const auto = await openai.responses.create(ask({}))
    expect(auto.output.map(({ type }) => type)).toEqual(['function_call'])
    const forced = await openai.responses.create(
      ask({ tool_choice: { type: 'function', name: 'get_weather' } }),
    )
    expect(forced.output.map(({ type }) => type)).toEqual(['function_call'])
    const answer = await openai.responses.parse(ask({ tools: [] }))
    expect(isAnswer(answer.output_text)).toBe(true)
    expect(answer.output_parsed).toEqual(JSON.parse(answer.output_text))
  })

  it('Anthropic - output_config.format with tools calls first; without tools it answers', async () => {
    const ask = {
      model: 'storyteller',
      temperature: 0,
      max_tokens: 300,
      messages: [{ role: 'user' as const, content: QUESTION }],
      output_config: { format: { type: 'json_schema' as const, schema: ANSWER } },
    }
    const called = await anthropic.messages.create({
      ...ask,
      tools: [{ name: 'get_weather', input_schema: { ...WEATHER, required: ['city'] } }],
    })
    expect(called.stop_reason).toBe('tool_use')
    expect(called.content.at(-1)).toMatchObject({ type: 'tool_use', input: { city: 'Paris' } })
    const answered = await anthropic.messages.create(ask)
    const [block] = answered.content
    expect(block?.type === 'text' && isAnswer(block.text)).toBe(true)
  })

  it('responses - a custom tool gets text, streamed or not; its result continues the conversation', async () => {
    const ask = {
      model: 'storyteller',
      temperature: 0,
      max_output_tokens: 200,
      input: 'Run the letters abc.',
      tools: [
        {
          type: 'custom' as const,
          name: 'run',
          description: 'Runs letters',
          format: { type: 'grammar' as const, syntax: 'regex' as const, definition: '[a-c"]{3,9}' },
        },
      ],
      tool_choice: { type: 'custom' as const, name: 'run' },
    }
    const whole = await openai.responses.create(ask)
    const [item] = whole.output
    if (item?.type !== 'custom_tool_call') throw new Error(`not a custom call: ${item?.type}`)
    expect(item).toMatchObject({
      name: 'run',
      input: expect.stringMatching(/^[a-c"]{3,9}$/) as string,
    })
    let input = ''
    let done = ''
    const stream = await openai.responses.create({ ...ask, stream: true })
    for await (const event of stream) {
      if (event.type === 'response.custom_tool_call_input.delta') input += event.delta
      if (event.type === 'response.custom_tool_call_input.done') done = event.input
    }
    expect([input, done]).toEqual([item.input, item.input])
    const after = await openai.responses.create({
      ...ask,
      tool_choice: 'none',
      input: [
        { role: 'user', content: ask.input },
        { type: 'custom_tool_call', call_id: item.call_id, name: 'run', input: item.input },
        { type: 'custom_tool_call_output', call_id: item.call_id, output: 'done' },
      ],
    })
    expect(after.output[0]?.type).toBe('message')
  })
})
