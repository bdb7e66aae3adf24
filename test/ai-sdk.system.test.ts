import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  embedMany,
  generateText,
  jsonSchema,
  stepCountIs,
  streamText,
  tool,
} from 'ai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

describe('the Vercel AI SDK', () => {
  let server: RunningServer
  let provider: ReturnType<typeof createOpenAICompatible>
  beforeAll(async () => {
    server = await startServer(['--sequences', '1'])
    provider = createOpenAICompatible({
      name: 'baton',
      baseURL: `${server.url}/v1`,
      includeUsage: true,
    })
  })
  afterAll(async () => {
    await server.stop()
  })

  it('generateText - text, finish reason and usage', async () => {
    const result = await generateText({
      model: provider('storyteller'),
      prompt: 'Repeat after me: lamp zafi tiger',
      temperature: 0,
    })
    expect(result.text).toBe('lamp zafi tiger')
    expect(result.finishReason).toBe('stop')
    expect(result.usage.inputTokens).toBeGreaterThan(5)
    expect(result.usage.outputTokens).toBeGreaterThan(2)
  })

  it('streamText - the text arrives in pieces, usage at the end', async () => {
    const result = streamText({
      model: provider('storyteller'),
      prompt: 'Count from 3 to 20.',
      temperature: 0,
    })
    let pieces = 0
    let text = ''
    for await (const piece of result.textStream) {
      pieces += 1
      text += piece
    }
    expect(text).toMatch(/^3, 4, 5/)
    expect(pieces).toBeGreaterThan(5)
    expect((await result.usage).outputTokens).toBeGreaterThan(5)
  })

  it('stopSequences - end the text', async () => {
    const result = await generateText({
      model: provider('storyteller'),
      prompt: 'Count from 3 to 20.',
      temperature: 0,
      stopSequences: [' 6'],
    })
    expect(result.text).toBe('3, 4, 5,')
  })

  it('tools - a tool call is returned as a tool call', async () => {
    const result = await generateText({
      model: provider('storyteller'),
      prompt: 'What is the weather in Paris?',
      temperature: 0,
      tools: {
        get_weather: tool({
          description: 'Get the weather of a city',
          inputSchema: jsonSchema<{ city: string }>({
            type: 'object',
            properties: { city: { type: 'string' } },
          }),
        }),
      },
    })
    expect(result.toolCalls.map(({ toolName }) => toolName)).toEqual(['get_weather'])
  })

  it('tools, streamed in several steps - the tool is executed and its result is answered', async () => {
    const inputSchema = jsonSchema<{ city: string }>({
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    })
    const result = streamText({
      model: provider('storyteller'),
      prompt: 'What is the weather in Paris?',
      temperature: 0,
      maxOutputTokens: 60,
      stopWhen: stepCountIs(2),
      tools: {
        get_weather: tool({
          description: 'The weather of a city',
          inputSchema,
          execute: ({ city }) => Promise.resolve(`sunny in ${city}`),
        }),
      },
    })
    await result.consumeStream()
    const steps = await result.steps
    expect(steps.map((step) => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(steps[1]?.text).toContain('sunny')
  })

  it('reasoning - is separate from the text, streamed or not', async () => {
    const request = {
      model: provider('storyteller'),
      prompt: 'Simon has a pink rope. What does Simon have? /think',
      temperature: 0,
      maxOutputTokens: 80,
    }
    const whole = await generateText(request)
    const streamed = streamText(request)
    expect(whole.reasoningText).toContain('Simon')
    expect(whole.text).toContain('pink rope')
    expect([await streamed.reasoningText, await streamed.text]).toEqual([
      whole.reasoningText,
      whole.text,
    ])
  })

  it('embedMany - returns one vector per text and the token count', async () => {
    const values = ['The cat sits in the garden.', 'Hello']
    const model = provider.textEmbeddingModel('storyteller')
    const { embeddings, usage } = await embedMany({ model, values })
    expect(embeddings.map((vector) => vector.length)).toEqual([192, 192])
    expect(usage.tokens).toBeGreaterThan(5)
  })

  it('abort during a stream - frees the slot for the next request', async () => {
    const abort = new AbortController()
    const result = streamText({
      model: provider('storyteller'),
      prompt: 'Tell me a long story about a robot named Otto.',
      abortSignal: abort.signal,
      onError: () => undefined,
    })
    for await (const _piece of result.textStream) {
      abort.abort()
      break
    }
    const next = await generateText({
      model: provider('storyteller'),
      prompt: 'Hello',
      maxOutputTokens: 3,
    })
    expect(next.usage.outputTokens).toBe(3)
  })

  it('errors - an unknown model is an API call error with its HTTP status', async () => {
    const attempt = generateText({ model: provider('nope'), prompt: 'Hello', maxRetries: 0 })
    const error: unknown = await attempt.catch((thrown: unknown) => thrown)
    expect(APICallError.isInstance(error) && error.statusCode).toBe(404)
  })
})
