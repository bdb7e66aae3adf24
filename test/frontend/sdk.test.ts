import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, it } from 'vitest'
import { handleFetch } from './handle-fetch.ts'
import { ScriptedFrontend, storyteller } from './scripted-frontend.ts'
import type { ScriptedOptions } from './scripted-frontend.ts'

const SAYS = 'Once upon a time – 🦊'
const HI = [{ role: 'user' as const, content: 'hi' }]
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
const PARAMETERS = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const } },
  required: ['city'],
}

function start(options: ScriptedOptions = {}) {
  const it_ = new ScriptedFrontend({
    script: (run) => void run.routed().says(SAYS).ends('eos'),
    ...options,
  })
  const fetch = handleFetch(it_.frontend)
  const openai = new OpenAI({
    apiKey: 'none',
    baseURL: 'http://baton.test/v1',
    fetch,
    maxRetries: 0,
  })
  const provider = createOpenAICompatible({
    name: 'baton',
    baseURL: 'http://baton.test/v1',
    fetch,
    includeUsage: true,
  })
  return { it_, openai, model: provider('storyteller') }
}

describe('openai SDK', () => {
  it('chat - whole and streamed, with usage', async () => {
    const { openai } = start()
    const whole = await openai.chat.completions.create({ model: 'storyteller', messages: HI })
    expect(whole.choices[0]?.message.content).toBe(SAYS)
    const stream = await openai.chat.completions.create({
      model: 'storyteller',
      messages: HI,
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let total = 0
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      total = chunk.usage?.total_tokens ?? total
    }
    expect(text).toBe(SAYS)
    expect(total).toBe(whole.usage?.total_tokens)
  })

  it('chat helper - assembles the tool calls of a stream', async () => {
    const { openai } = start({ script: (run) => void run.says(`Look: ${CALL}`).ends('eos') })
    const tools = [
      { type: 'function' as const, function: { name: 'weather', parameters: PARAMETERS } },
    ]
    const runner = openai.chat.completions.stream({ model: 'storyteller', messages: HI, tools })
    const completion = await runner.finalChatCompletion()
    const [choice] = completion.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    const [call] = choice?.message.tool_calls ?? []
    expect(call).toMatchObject({ type: 'function', function: { name: 'weather' } })
    const whole = await openai.chat.completions.create({
      model: 'storyteller',
      messages: HI,
      tools,
    })
    expect(whole.choices[0]?.message.tool_calls?.[0]).toMatchObject({
      function: { name: 'weather', arguments: '{"city": "Oslo"}' },
    })
    expect(whole.choices[0]?.message.content?.trim()).toBe('Look:')
  })

  it('chat helper - one log-probability per token', async () => {
    const tokenIds = [...storyteller().tokenizer.encode(SAYS, { special: false })]
    const { openai } = start({
      script: (run) => {
        for (const tokenId of tokenIds) {
          run.chunk({ tokenIds: [tokenId], logprobs: [{ tokenId, logprob: -1, top: [] }] })
        }
        run.ends('eos')
      },
    })
    const stream = openai.chat.completions.stream({
      model: 'storyteller',
      messages: HI,
      logprobs: true,
    })
    const [choice] = (await stream.finalChatCompletion()).choices
    expect(choice?.message.content).toBe(SAYS)
    expect(choice?.logprobs?.content).toHaveLength(tokenIds.length)
  })

  it('errors - have the classes of the SDK', async () => {
    const { openai, it_ } = start()
    const create = (fields: object) =>
      openai.chat.completions.create({ model: 'storyteller', messages: HI, ...fields })
    await expect(create({ model: 'nope' })).rejects.toBeInstanceOf(OpenAI.NotFoundError)
    await expect(create({ temperature: 3 })).rejects.toBeInstanceOf(OpenAI.BadRequestError)
    it_.script = (run) => void run.fails('backend.unknown')
    await expect(create({})).rejects.toBeInstanceOf(OpenAI.InternalServerError)
    await expect(create({ stream: true })).rejects.toBeInstanceOf(OpenAI.InternalServerError)
  })

  it('an error during a stream - is thrown by the iterator', async () => {
    const { openai } = start({
      script: (run) => void run.says('one').fails('backend.unknown', 'broken'),
    })
    const stream = await openai.chat.completions.create({
      model: 'storyteller',
      messages: HI,
      stream: true,
    })
    await expect(async () => {
      for await (const chunk of stream) expect(chunk.choices).toHaveLength(1)
    }).rejects.toThrow('broken')
  })

  it('abort during a stream - aborts the request', async () => {
    const { openai, it_ } = start({ script: (run) => void run.says('one') })
    const stream = await openai.chat.completions.create({
      model: 'storyteller',
      messages: HI,
      stream: true,
    })
    for await (const chunk of stream) {
      expect(chunk.choices).toHaveLength(1)
      stream.controller.abort()
    }
    expect(it_.runs[0]?.cancels).toEqual(['kill'])
  })

  it('completions and models', async () => {
    const { openai } = start()
    const reply = await openai.completions.create({ model: 'storyteller', prompt: ['a', 'b'] })
    expect(reply.choices.map((choice) => choice.text)).toEqual([SAYS, SAYS])
    expect((await openai.models.list()).data.map((entry) => entry.id)).toEqual(['storyteller'])
  })

  it('responses - whole', async () => {
    const { openai } = start()
    const reply = await openai.responses.create({
      model: 'storyteller',
      instructions: 'be brief',
      input: 'hi',
    })
    expect(reply.output_text).toBe(SAYS)
    expect(reply.status).toBe('completed')
    expect(reply.usage?.output_tokens).toBeGreaterThan(1)
  })

  it('responses - streamed, the final object equals the whole one', async () => {
    const { openai } = start()
    const stream = openai.responses.stream({ model: 'storyteller', input: 'hi' })
    const seen: string[] = []
    const sequence: number[] = []
    for await (const event of stream) {
      seen.push(event.type)
      sequence.push(event.sequence_number)
    }
    expect(sequence).toEqual(sequence.map((_, i) => i))
    expect(seen.filter((type) => type !== 'response.output_text.delta')).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
    expect((await stream.finalResponse()).output_text).toBe(SAYS)
  })

  it('responses - function calls and their results', async () => {
    const { openai, it_ } = start({ script: (run) => void run.says(CALL).ends('eos') })
    const tools = [
      { type: 'function' as const, name: 'weather', parameters: PARAMETERS, strict: null },
    ]
    const reply = await openai.responses.create({ model: 'storyteller', input: 'hi', tools })
    const [call] = reply.output
    expect(call).toMatchObject({
      type: 'function_call',
      name: 'weather',
      arguments: '{"city": "Oslo"}',
    })
    if (call?.type !== 'function_call') throw new Error('no call')
    it_.script = (run) => void run.says('Rain.').ends('eos')
    const second = await openai.responses.create({
      model: 'storyteller',
      tools,
      input: [
        { role: 'user', content: 'hi' },
        call,
        { type: 'function_call_output', call_id: call.call_id, output: 'rain' },
      ],
    })
    expect(second.output_text).toBe('Rain.')
    const stream = openai.responses.stream({ model: 'storyteller', input: 'hi', tools })
    it_.script = (run) => void run.says(CALL).ends('eos')
    const final = await stream.finalResponse()
    expect(final.output[0]).toMatchObject({ type: 'function_call', arguments: '{"city": "Oslo"}' })
  })

  it('responses - requests that need storage get 501, failures after the start are an event', async () => {
    const { openai, it_ } = start()
    const create = (fields: object) =>
      openai.responses.create({ model: 'storyteller', input: 'hi', ...fields })
    await expect(create({ previous_response_id: 'resp_1' })).rejects.toMatchObject({ status: 501 })
    await expect(create({ background: true })).rejects.toMatchObject({ status: 501 })
    it_.script = (run) => void run.says('one').fails('backend.unknown', 'broken')
    const types: string[] = []
    for await (const event of await openai.responses.create({
      model: 'storyteller',
      input: 'hi',
      stream: true,
    })) {
      types.push(event.type)
    }
    expect(types.at(-1)).toBe('response.failed')
  })
})

describe('AI SDK', () => {
  it('generateText and streamText', async () => {
    const { model } = start()
    const whole = await generateText({ model, prompt: 'hi' })
    expect(whole.text).toBe(SAYS)
    const streamed = streamText({ model, prompt: 'hi' })
    let text = ''
    for await (const piece of streamed.textStream) text += piece
    expect(text).toBe(SAYS)
    expect((await streamed.usage).outputTokens).toBe(whole.usage.outputTokens)
    expect(await streamed.finishReason).toBe('stop')
  })

  it('tools - are called, and the conversation continues with their results', async () => {
    const { it_, model } = start({
      script: (run, nth) => void run.says(nth === 0 ? CALL : 'It rains.').ends('eos'),
    })
    const first = await generateText({
      model,
      prompt: 'weather?',
      tools: {
        weather: tool({
          description: 'weather of a city',
          inputSchema: jsonSchema<{ city: string }>(PARAMETERS),
        }),
      },
    })
    expect(first.toolCalls[0]).toMatchObject({ toolName: 'weather', input: { city: 'Oslo' } })
    expect(it_.requests).toHaveLength(1)
  })

  it('errors - have their status', async () => {
    const { it_, model } = start()
    it_.script = (run) => void run.fails('capacity.exhausted')
    await expect(generateText({ model, prompt: 'hi', maxRetries: 0 })).rejects.toMatchObject({
      statusCode: 529,
    })
  })
})
