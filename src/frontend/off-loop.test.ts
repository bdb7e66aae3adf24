import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'

/** A frontend that keeps which texts were tokenised elsewhere, and how many at a time. */
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
      encodeOffLoop: async (_card, text, options) => {
        texts.push(text)
        open += 1
        mostOpen = Math.max(mostOpen, open)
        await Promise.resolve()
        open -= 1
        return storyteller().tokenizer.encode(text, options)
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
  ])('%s - tokenised elsewhere from the limit on, not below', async (path, field) => {
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
  ])('%s - the rendered chat is tokenised elsewhere', async (path, body) => {
    const { it_, texts } = start()
    expect((await it_.post(path, { model: 'storyteller', ...body })).status).toBe(200)
    expect(texts).toEqual([expect.stringContaining(long)])
  })

  it.each([
    ['/v1/completions', 'prompt'],
    ['/v1/embeddings', 'input'],
  ])('%s - many short ones are a long one, tokenised one after the other', async (path, field) => {
    const { it_, texts, mostOpen } = start()
    const many = Array.from({ length: 50 }, (_, i) => `ab${i % 10}`)
    const reply = await it_.post(path, { [field]: many })
    expect(reply.status).toBe(200)
    expect([texts.length, mostOpen()]).toEqual([50, 1])
  })
})
