import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const STORY = 'Tell me a long story about a robot named Otto.'
const WEATHER = 'What is the weather in Paris?'
const user = (content: string) => [{ role: 'user' as const, content }]
const TOOLS: Anthropic.Tool[] = [
  {
    name: 'get_weather',
    description: 'Get the weather of a city',
    input_schema: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    },
  },
]

/** The event types of a stream; consecutive events of the same type are listed once. */
function kindsOf(events: readonly Anthropic.MessageStreamEvent[]): string[] {
  return events
    .map((event) => event.type as string)
    .filter((kind, index, kinds) => kind !== 'ping' && kind !== kinds[index - 1])
}

async function allOf<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const events: T[] = []
  for await (const event of stream) events.push(event)
  return events
}

describe('the Anthropic client', () => {
  let server: RunningServer
  let client: Anthropic
  const base = { model: 'storyteller', max_tokens: 40, temperature: 0 }
  beforeAll(async () => {
    // One sequence per worker: a slot that is not released would block the next request.
    server = await startServer(['--sequences', '1'])
    client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(async () => {
    await server.stop()
  })

  it('messages - returns text, stop reason and usage', async () => {
    const message = await client.messages.create({
      ...base,
      messages: user('Repeat after me: lamp zafi tiger'),
    })
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'storyteller',
      content: [{ type: 'text', text: 'lamp zafi tiger' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
    })
    expect(message.id).toMatch(/^msg_/)
    expect(message.usage.input_tokens).toBeGreaterThan(10)
    expect(message.usage.output_tokens).toBeGreaterThan(3)
  })

  it('system prompt and several turns - are part of the prompt', async () => {
    const count = async (fields: Record<string, unknown>) => {
      const { usage } = await client.messages.create({
        ...base,
        max_tokens: 1,
        messages: user('Hello'),
        ...fields,
      } as Anthropic.MessageCreateParamsNonStreaming)
      return usage.input_tokens + (usage.cache_read_input_tokens ?? 0)
    }
    const alone = await count({})
    expect(await count({ system: 'You are brief.' })).toBeGreaterThan(alone)
    expect(
      await count({
        messages: [
          ...user('Hello'),
          { role: 'assistant', content: [{ type: 'text', text: 'Hi!' }] },
          ...user('And you?'),
        ],
      }),
    ).toBeGreaterThan(alone)
  })

  it('streamed - events arrive in the documented order and contain the same text as the whole message', async () => {
    const request = { ...base, messages: user(STORY) }
    const whole = await client.messages.create(request)
    const events = await allOf(await client.messages.create({ ...request, stream: true }))
    expect(kindsOf(events)).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
    const texts = events.flatMap((event) =>
      event.type === 'content_block_delta' && event.delta.type === 'text_delta'
        ? [event.delta.text]
        : [],
    )
    expect(texts.length).toBeGreaterThan(20)
    expect([{ type: 'text', text: texts.join('') }]).toEqual(whole.content)
  })

  it('messages.stream - the helper assembles the final message with usage', async () => {
    const stream = client.messages.stream({ ...base, messages: user(STORY) })
    let text = ''
    stream.on('text', (piece) => {
      text += piece
    })
    const message = await stream.finalMessage()
    expect(await stream.finalText()).toBe(text)
    expect(message.stop_reason).toBe('max_tokens')
    expect(message.usage.output_tokens).toBe(40)
  })

  it('stop_sequences - end the text, and the reply names the one that matched', async () => {
    const message = await client.messages.create({
      ...base,
      messages: user('Count from 3 to 20.'),
      stop_sequences: [' 7'],
    })
    expect(message).toMatchObject({
      content: [{ type: 'text', text: '3, 4, 5, 6,' }],
      stop_reason: 'stop_sequence',
      stop_sequence: ' 7',
    })
  })

  it('tools - a call, and a next turn that contains its result', async () => {
    const asked = { ...base, tools: TOOLS, messages: user(WEATHER) }
    const message = await client.messages.create(asked)
    expect(message.stop_reason).toBe('tool_use')
    const call = message.content.find((block) => block.type === 'tool_use')
    expect(call).toMatchObject({ name: 'get_weather', input: { city: 'Paris' } })
    const next = await client.messages.create({
      ...asked,
      messages: [
        ...user(WEATHER),
        { role: 'assistant', content: message.content },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: call?.id ?? '', content: 'rain' }],
        },
      ],
    })
    expect(next.usage.output_tokens).toBeGreaterThan(0)
  })

  it('tools, streamed - the input arrives as JSON in pieces', async () => {
    const stream = client.messages.stream({ ...base, tools: TOOLS, messages: user(WEATHER) })
    let json = ''
    stream.on('inputJson', (piece) => {
      json += piece
    })
    const message = await stream.finalMessage()
    expect(JSON.parse(json)).toEqual({ city: 'Paris' })
    expect(message.stop_reason).toBe('tool_use')
    expect(message.content).toMatchObject([{ type: 'tool_use', input: { city: 'Paris' } }])
  })

  it.each([
    ['any', { type: 'any' }],
    ['a named tool', { type: 'tool', name: 'get_weather' }],
  ] as const)(
    'tool_choice %s - forces a call even if the prompt asks for none',
    async (_what, choice) => {
      const message = await client.messages.create({
        ...base,
        max_tokens: 300,
        tools: TOOLS,
        tool_choice: choice,
        messages: user('Hello'),
      })
      expect(message.content).toMatchObject([
        { type: 'tool_use', name: 'get_weather', input: { city: expect.any(String) } },
      ])
    },
  )

  it('tool_choice none - no call although tools are given', async () => {
    const message = await client.messages.create({
      ...base,
      tools: TOOLS,
      tool_choice: { type: 'none' },
      messages: user(WEATHER),
    })
    expect(message.content.every((block) => block.type === 'text')).toBe(true)
  })

  it('thinking - is a separate block before the text, streamed or not', async () => {
    const request = {
      ...base,
      max_tokens: 80,
      messages: user('Simon has a pink rope. What does Simon have? /think'),
    }
    const whole = await client.messages.create(request)
    expect(whole.content).toMatchObject([
      { type: 'thinking', thinking: expect.stringContaining('What does Simon have?') },
      { type: 'text', text: expect.stringContaining('Simon has a pink rope.') },
    ])
    const streamed = await client.messages.stream(request).finalMessage()
    expect(streamed.content).toEqual(whole.content)
  })

  it('usage - cached tokens are counted separately', async () => {
    const request = {
      ...base,
      max_tokens: 2,
      messages: user('Mia has a blue boat and lives in the harbour. '.repeat(20)),
    }
    const first = await client.messages.create(request)
    const { usage } = await client.messages.create(request)
    expect(first.usage.cache_read_input_tokens).toBeLessThan(50)
    expect(usage.cache_read_input_tokens).toBeGreaterThan(100)
    expect(usage.input_tokens + (usage.cache_read_input_tokens ?? 0)).toBe(
      first.usage.input_tokens + (first.usage.cache_read_input_tokens ?? 0),
    )
  })

  it('count_tokens - returns the same number that the message is charged', async () => {
    const prompt = { system: 'You are brief.', tools: TOOLS, messages: user(WEATHER) }
    const counted = await client.messages.countTokens({ model: 'storyteller', ...prompt })
    const { usage } = await client.messages.create({ ...base, max_tokens: 1, ...prompt })
    expect(counted.input_tokens).toBe(usage.input_tokens + (usage.cache_read_input_tokens ?? 0))
  })

  it('abort during a stream - frees the slot for the next request', async () => {
    const stream = client.messages.stream({
      ...base,
      // With greedy sampling this story has 2,448 tokens. If a reply ends while its first chunk is read, the client
      // may miss the end: this happened on a busy machine with a sampled reply of 150 tokens.
      max_tokens: 3500,
      messages: user(STORY),
    })
    const failed = stream.done().then(
      () => null,
      (error: unknown) => error,
    )
    let deltas = 0
    stream.on('text', () => {
      deltas += 1
      if (deltas === 3) stream.abort()
    })
    expect(await failed).toBeInstanceOf(Anthropic.APIUserAbortError)
    const next = await client.messages.create({ ...base, max_tokens: 3, messages: user('Hello') })
    expect(next.usage.output_tokens).toBe(3)
    expect(deltas).toBeLessThan(2000)
  })

  it.each([
    ['unknown model', { model: 'nope' }, 404, 'not_found_error', 'nope'],
    ['no messages', { messages: [] }, 400, 'invalid_request_error', 'messages'],
    ['max_tokens 0', { max_tokens: 0 }, 400, 'invalid_request_error', 'max_tokens'],
    ['temperature', { temperature: 1.1 }, 400, 'invalid_request_error', 'temperature'],
    ['unknown field', { not_a_field: 1 }, 400, 'invalid_request_error', 'not_a_field'],
    ['context', { messages: user('fox '.repeat(5000)) }, 400, 'invalid_request_error', '4096'],
  ] as const)(
    'error %s - has the expected status, type and message',
    async (_what, fields, status, type, named) => {
      for (const stream of [false, true]) {
        const attempt = client.messages.create({
          ...base,
          messages: user('Hello'),
          stream,
          ...fields,
        } as never)
        const error: unknown = await attempt.then(
          () => null,
          (thrown: unknown) => thrown,
        )
        expect(error).toBeInstanceOf(
          status === 404 ? Anthropic.NotFoundError : Anthropic.BadRequestError,
        )
        expect(error).toMatchObject({
          status,
          type,
          message: expect.stringContaining(named),
          requestID: expect.any(String),
        })
      }
    },
  )

  it("models - are listed and retrieved in Anthropic's format", async () => {
    const model = { type: 'model', id: 'storyteller', display_name: 'storyteller' }
    const listed = await client.models.list()
    expect([listed.data, listed.has_more]).toMatchObject([[model], false])
    const found = await client.models.retrieve('storyteller')
    expect(found).toMatchObject(model)
    expect(Date.parse(found.created_at)).toBeGreaterThan(0)
    await expect(client.models.retrieve('nope')).rejects.toMatchObject({
      status: 404,
      error: { type: 'error', error: { type: 'not_found_error' } },
    })
  })

  it('tool runner - works without a thread that is stored on the server', async () => {
    const asked: unknown[] = []
    const final = await client.beta.messages.toolRunner({
      ...base,
      messages: user(WEATHER),
      max_iterations: 2,
      tools: [
        {
          name: 'get_weather',
          description: 'Get the weather of a city',
          input_schema: {
            type: 'object' as const,
            properties: { city: { type: 'string' } },
            required: ['city'],
          },
          parse: (input: unknown) => input,
          run: (input: unknown) => {
            asked.push(input)
            return 'sunny'
          },
        },
      ],
    })
    expect(asked).toEqual([{ city: 'Paris' }])
    expect(final.content.length).toBeGreaterThan(0)
    const thread = { type: 'create' as const }
    const refused = client.beta.messages.create({ ...base, messages: user(WEATHER), thread })
    await expect(refused).rejects.toMatchObject({
      status: 400,
      error: { error: { details: { error_code: 'thread_unsupported_request' } } },
    })
  })
})
