import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const STORY = 'Tell me a long story about a robot named Otto.'
const user = (content: string) => [{ role: 'user' as const, content }]

describe('the openai client', () => {
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    // One sequence per worker: a slot that is not released would block the next request.
    server = await startServer(['--sequences', '1'])
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(async () => {
    await server.stop()
  })

  it('models - are listed and retrieved', async () => {
    const listed = await client.models.list()
    expect(listed.data.map(({ id }) => id)).toEqual(['storyteller'])
    expect((await client.models.retrieve('storyteller')).id).toBe('storyteller')
  })

  it('chat - returns an answer with usage', async () => {
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user('Repeat after me: lamp zafi tiger'),
      temperature: 0,
    })
    expect(reply.choices[0]?.message).toMatchObject({
      role: 'assistant',
      content: 'lamp zafi tiger',
    })
    expect(reply.choices[0]?.finish_reason).toBe('stop')
    expect(reply.usage?.total_tokens).toBe(
      (reply.usage?.prompt_tokens ?? 0) + (reply.usage?.completion_tokens ?? 0),
    )
  })

  it('chat, streamed - returns the same text, with usage on the last chunk', async () => {
    const request = { model: 'storyteller', messages: user(STORY), temperature: 0, max_tokens: 60 }
    const whole = await client.chat.completions.create(request)
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let completionTokens = 0
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      completionTokens = chunk.usage?.completion_tokens ?? completionTokens
    }
    expect(text).toBe(whole.choices[0]?.message.content)
    expect(completionTokens).toBe(60)
  })

  it('stop - ends before the stop string and does not return it', async () => {
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user('Count from 3 to 20.'),
      temperature: 0,
      stop: [' 7'],
    })
    expect(reply.choices[0]?.message.content).toBe('3, 4, 5, 6,')
    expect(reply.choices[0]?.finish_reason).toBe('stop')
  })

  it('max_completion_tokens - ends the answer with finish reason length', async () => {
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user(STORY),
      max_completion_tokens: 5,
    })
    expect(reply.choices[0]?.finish_reason).toBe('length')
    expect(reply.usage?.completion_tokens).toBe(5)
  })

  it('seed - the same seed gives the same text, another seed another text', async () => {
    const ask = async (seed: number) => {
      const reply = await client.chat.completions.create({
        model: 'storyteller',
        messages: user(STORY),
        temperature: 1,
        seed,
        max_tokens: 40,
      })
      return reply.choices[0]?.message.content
    }
    const first = await ask(7)
    expect(await ask(7)).toBe(first)
    expect(await ask(8)).not.toBe(first)
  })

  it('n - returns as many choices as requested, each with its index', async () => {
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user('Hello'),
      temperature: 1,
      seed: 1,
      n: 3,
      max_tokens: 10,
    })
    expect(reply.choices.map(({ index }) => index)).toEqual([0, 1, 2])
  })

  it('logprobs - one entry per token; with greedy sampling the chosen token is among the top ones', async () => {
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user('Hello'),
      temperature: 0,
      max_tokens: 5,
      logprobs: true,
      top_logprobs: 3,
    })
    const entries = reply.choices[0]?.logprobs?.content ?? []
    expect(entries).toHaveLength(5)
    for (const entry of entries) {
      expect(entry.logprob).toBeLessThanOrEqual(0)
      expect(entry.top_logprobs).toHaveLength(3)
      expect(entry.top_logprobs[0]?.token).toBe(entry.token)
    }
    expect(entries.map(({ token }) => token).join('')).toBe(reply.choices[0]?.message.content)
  })

  it('completions - several prompts return one choice each', async () => {
    const reply = await client.completions.create({
      model: 'storyteller',
      prompt: ['Once upon a time', 'The fox'],
      max_tokens: 8,
      temperature: 0,
    })
    expect(reply.choices.map(({ index }) => index)).toEqual([0, 1])
    expect(reply.choices.every(({ text }) => text.length > 0)).toBe(true)
  })

  it("embeddings - several texts, as numbers and as base64 (the client's default)", async () => {
    const input = ['The cat sits in the garden.', 'Repeat after me: lamp zafi tiger']
    const [coded, plain] = await Promise.all([
      client.embeddings.create({ model: 'storyteller', input }),
      client.embeddings.create({ model: 'storyteller', input, encoding_format: 'float' }),
    ])
    expect(plain.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
      [0, 192],
      [1, 192],
    ])
    expect(coded.data.map(({ embedding }) => [...embedding])).toEqual(
      plain.data.map(({ embedding }) => embedding),
    )
    expect(plain.data[0]?.embedding).not.toEqual(plain.data[1]?.embedding)
    expect(plain.usage.total_tokens).toBe(plain.usage.prompt_tokens)
    const refused = client.embeddings.create({ model: 'storyteller', input, dimensions: 64 })
    await expect(refused).rejects.toMatchObject({ status: 400, param: 'dimensions' })
  })

  it('responses - whole and streamed; reasoning is separate and its tokens are counted', async () => {
    const request = {
      model: 'storyteller',
      input: 'Simon has a pink rope. What does Simon have? /think',
      temperature: 0,
      max_output_tokens: 80,
    }
    const whole = await client.responses.create(request)
    expect(whole.output.map(({ type }) => type)).toEqual(['reasoning', 'message'])
    expect(whole.output_text).toContain('pink rope')
    const counted = whole.usage?.output_tokens_details.reasoning_tokens ?? 0
    expect(counted).toBeGreaterThan(2)
    expect(counted).toBeLessThan(whole.usage?.output_tokens ?? 0)
    const streamed = await client.responses.stream(request).finalResponse()
    expect([streamed.output_text, streamed.usage]).toEqual([
      whole.output_text,
      { ...whole.usage, input_tokens_details: expect.anything() },
    ])
  })

  it('tools - the model calls a tool that the prompt lists', async () => {
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user('What is the weather in Paris?'),
      temperature: 0,
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: 'Get the weather of a city',
            parameters: { type: 'object', properties: { city: { type: 'string' } } },
          },
        },
      ],
    })
    const [choice] = reply.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    const [call] = choice?.message.tool_calls ?? []
    expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } })
  })

  it('runTools - the helper streams the call, sends its result, and reads the answer', async () => {
    const runner = client.chat.completions.runTools({
      model: 'storyteller',
      messages: user('What is the weather in Paris?'),
      temperature: 0,
      max_tokens: 60,
      stream: true,
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: 'The weather of a city',
            parameters: { type: 'object', properties: { city: { type: 'string' } } },
            parse: (text: string) => JSON.parse(text) as { city: string },
            function: ({ city }: { city: string }) => `sunny in ${city}`,
          },
        },
      ],
    })
    expect(await runner.finalContent()).toContain('sunny')
    expect(runner.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
    ])
  })

  it('abort during a stream - frees the slot for the next request', async () => {
    const abort = new AbortController()
    const stream = await client.chat.completions.create(
      {
        model: 'storyteller',
        messages: user(STORY),
        stream: true,
        ignore_eos: true,
        max_tokens: 3500,
      } as never,
      { signal: abort.signal },
    )
    let chunks = 0
    const read = async (): Promise<void> => {
      for await (const _chunk of stream as unknown as AsyncIterable<unknown>) {
        chunks += 1
        if (chunks === 3) abort.abort()
      }
    }
    await read().catch(() => undefined)
    const reply = await client.chat.completions.create({
      model: 'storyteller',
      messages: user('Hello'),
      max_tokens: 3,
    })
    expect(reply.usage?.completion_tokens).toBe(3)
    expect(chunks).toBeLessThan(3000)
  })

  it('errors - have the error classes of the client', async () => {
    const base = { model: 'storyteller', messages: user('Hello') }
    const attempt = (body: Record<string, unknown>) =>
      client.chat.completions.create({ ...base, ...body } as never)
    await expect(attempt({ model: 'nope' })).rejects.toBeInstanceOf(OpenAI.NotFoundError)
    await expect(attempt({ temperature: 3 })).rejects.toBeInstanceOf(OpenAI.BadRequestError)
    await expect(attempt({ messages: [] })).rejects.toBeInstanceOf(OpenAI.BadRequestError)
    await expect(attempt({ not_a_field: 1 })).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('not_a_field'),
    })
    await expect(attempt({ messages: user('fox '.repeat(5000)) })).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    })
  })
})
