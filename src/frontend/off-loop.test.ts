import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'
import { parseChatRequest } from '../api/index.ts'
import { chatPrompt } from './prompt/prompt.ts'

/** A frontend that records which texts were tokenised off the event loop, and how many at a time. */
function start() {
  const texts: string[] = []
  let open = 0
  let mostOpen = 0
  const it_ = new ScriptedFrontend({
    script: (run) =>
      void (run.request.kind === 'embed'
        ? run.ends('stop', { embedding: Float32Array.of(1) })
        : run.ends('stop')),
    engine: { features: ['embeddings'], embeddingLength: 1 },
    limits: { offLoopCharacters: 100 },
    options: {
      encodeOffLoop: async (_card, tokenizer, text, options) => {
        texts.push(text)
        open += 1
        mostOpen = Math.max(mostOpen, open)
        await Promise.resolve()
        open -= 1
        return tokenizer.encode(text, options)
      },
    },
  })
  return { it_, texts, mostOpen: () => mostOpen }
}

const [short, long] = ['x'.repeat(99), 'x'.repeat(100)]
const user = (content: string) => [{ role: 'user', content }]

describe('long texts', () => {
  it.each([
    ['/v1/completions', 'prompt', {}],
    ['/v1/embeddings', 'input', {}],
    ['/tokenize', 'prompt', {}],
  ])('%s - tokenised off the event loop from the limit on, not below', async (path, field) => {
    const { it_, texts } = start()
    expect((await it_.post(path, { [field]: short })).status).toBe(200)
    expect(texts).toEqual([])
    expect((await it_.post(path, { [field]: long })).status).toBe(200)
    expect(texts).toEqual([long])
  })

  it.each([
    ['/v1/chat/completions', { messages: user(long) }],
    ['/v1/responses', { input: long }],
    ['/v1/responses/input_tokens', { input: long }],
    ['/v1/messages', { messages: user(long), max_tokens: 1 }],
    ['/v1/messages/count_tokens', { messages: user(long) }],
    ['/tokenize', { messages: user(long) }],
  ])('%s - the rendered chat is tokenised off the event loop', async (path, body) => {
    const { it_, texts } = start()
    expect((await it_.post(path, { model: 'storyteller', ...body })).status).toBe(200)
    expect(texts).toEqual([expect.stringContaining(long)])
  })

  it.each([
    ['/v1/completions', 'prompt'],
    ['/v1/embeddings', 'input'],
  ])(
    '%s - many short texts count as a long one and are tokenised one after the other',
    async (path, field) => {
      const { it_, texts, mostOpen } = start()
      const many = Array.from({ length: 50 }, (_, i) => `ab${i % 10}`)
      const reply = await it_.post(path, { [field]: many })
      expect(reply.status).toBe(200)
      expect([texts.length, mostOpen()]).toEqual([50, 1])
    },
  )

  it.each([
    ['/v1/completions', 'prompt'],
    ['/v1/embeddings', 'input'],
    ['/v1/chat/completions', 'messages'],
    ['/v1/messages', 'messages'],
    ['/v1/responses', 'input'],
  ])(
    '%s - a text that cannot fit the context is refused before it is tokenised',
    async (path, field) => {
      const { it_, texts } = start()
      const ask = async (megabytes: number, phrase = 'once upon a time ') => {
        const text = phrase.repeat((megabytes * 1024 * 1024) / phrase.length)
        const value = field === 'messages' ? user(text) : text
        return await it_.post(path, {
          model: 'storyteller',
          [field]: value,
          ...(path === '/v1/messages' ? { max_tokens: 1 } : {}),
        })
      }
      for (const phrase of [undefined, '<|', '<|im_start|>']) {
        const reply = await ask(8, phrase)
        expect(reply.status).toBe(400)
        expect(reply.json.error.message).toMatch(/4096 tokens\. .* resulted in at least \d+ tokens/)
        expect([texts, it_.runs]).toEqual([[], []])
      }
      // A text that might fit is counted exactly.
      const near = await ask(0.02)
      expect(texts).toHaveLength(1)
      expect(JSON.stringify(near.json)).not.toContain('at least')
    },
  )

  it.each([
    ['/tokenize', 'prompt', 'prompt'],
    ['/tokenize', 'messages', 'messages'],
    ['/v1/messages/count_tokens', 'messages', 'messages'],
    ['/v1/responses/input_tokens', 'input', 'input'],
  ])(
    '%s of %s - counts more than fits, and refuses a text that is many times too long',
    async (path, field, param) => {
      const { it_, texts } = start()
      const ask = async (characters: number, phrase = 'once upon a time ') => {
        const text = phrase.repeat(characters / phrase.length)
        const value = field === 'messages' ? user(text) : text
        return await it_.post(path, { model: 'storyteller', [field]: value })
      }
      expect((await ask(100_000)).status).toBe(200)
      expect(texts).toHaveLength(1)
      for (const phrase of [undefined, '<|']) {
        const reply = await ask(2 * 1024 * 1024, phrase)
        expect(reply.status).toBe(413)
        expect(JSON.stringify(reply.json)).toMatch(
          new RegExp(`${param}.*: \\d+ characters, at most 1048576 are tokenised`),
        )
        expect(texts).toHaveLength(1)
      }
    },
  )

  it('control tokens that the template does not show - marked between other work', async () => {
    let turns = 0
    const pause = (): Promise<void> => {
      turns += 1
      return Promise.resolve()
    }
    const text = storyteller()
    const call = parseChatRequest({
      model: 'storyteller',
      messages: [{ role: 'user', name: '<|'.repeat(1024 * 1024), content: 'hi' }],
    })
    const offLoop = { encode: () => undefined, refuse: () => undefined, pause }
    const plain = parseChatRequest({ model: 'storyteller', messages: user('hi') })
    expect(await chatPrompt(call, text, offLoop)).toEqual(chatPrompt(plain, text, offLoop))
    expect(turns).toBeGreaterThan(4)
  })

  it('a client that leaves while its text is tokenised - nothing is sent', async () => {
    const client = new AbortController()
    const it_ = new ScriptedFrontend({
      limits: { offLoopCharacters: 100 },
      options: {
        encodeOffLoop: (_card, tokenizer, text, options) => {
          client.abort()
          return Promise.resolve(tokenizer.encode(text, options))
        },
      },
    })
    const body = JSON.stringify({ model: 'storyteller', messages: user(long) })
    const { signal } = client
    const reply = await it_.send('POST', '/v1/chat/completions', { body, signal })
    expect([reply.status, it_.runs.length]).toEqual([499, 0])
  })
})
