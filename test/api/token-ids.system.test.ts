import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { clientOf } from './openai-of.ts'

const MESSAGES = [{ role: 'user' as const, content: 'Tell me about Mira the fox. 🦊' }]
const PROMPT = 'Once upon a time there was a brave fox named Mira. 🦊'

/** Fields that `return_token_ids` adds; the SDK has no types for them. */
interface Ids {
  readonly token_ids?: readonly number[]
  readonly prompt_token_ids?: readonly number[]
}

const idsOf = (part: object | undefined): Ids => (part ?? {}) as Ids

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of stream) items.push(item)
  return items
}

describe('return_token_ids with the openai client', () => {
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    server = await startServer([])
    client = clientOf(server)
  })
  afterAll(async () => {
    await server.stop()
  })

  const asked = { return_token_ids: true } as object
  const chat = { model: 'storyteller', messages: MESSAGES, temperature: 0, max_tokens: 24 }
  const completion = { model: 'storyteller', prompt: PROMPT, temperature: 0, max_tokens: 24 }

  async function textOf(tokens: readonly number[] | undefined): Promise<string> {
    const reply = await fetch(`${server.url}/detokenize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ tokens }),
    })
    return ((await reply.json()) as { prompt: string }).prompt
  }

  it('chat - the ids of the answer decode to its text, the ids of the prompt contain the question', async () => {
    const reply = await client.chat.completions.create({ ...chat, ...asked, stream: false })
    const [choice] = reply.choices
    const ids = idsOf(choice).token_ids
    expect(ids).toHaveLength(reply.usage?.completion_tokens ?? -1)
    expect(await textOf(ids)).toBe(choice?.message.content)
    const prompt = idsOf(reply).prompt_token_ids
    expect(prompt).toHaveLength(reply.usage?.prompt_tokens ?? -1)
    expect(await textOf(prompt)).toContain(MESSAGES[0]?.content)
  })

  it("chat, streamed - each chunk has the ids since the last one, the first has the prompt's", async () => {
    const whole = await client.chat.completions.create({ ...chat, ...asked, stream: false })
    const stream = await client.chat.completions.create({ ...chat, ...asked, stream: true })
    const chunks = await all(stream)
    expect(chunks.every((chunk) => idsOf(chunk.choices[0]).token_ids !== undefined)).toBe(true)
    const ids = chunks.flatMap((chunk) => idsOf(chunk.choices[0]).token_ids ?? [])
    expect(ids).toEqual(idsOf(whole.choices[0]).token_ids)
    const prompts = chunks.map((chunk) => idsOf(chunk).prompt_token_ids)
    expect(prompts[0]).toEqual(idsOf(whole).prompt_token_ids)
    expect(prompts.slice(1).every((each) => each === undefined)).toBe(true)
  })

  it('completions, streamed or not - each choice has its own ids, also with several prompts', async () => {
    const several = { ...completion, ...asked, prompt: [PROMPT, 'The dog Rex'], n: 2, seed: 7 }
    const warm = { ...several, temperature: 1 }
    const whole = await client.completions.create({ ...warm, stream: false })
    expect(whole.choices).toHaveLength(4)
    for (const choice of whole.choices) {
      expect(await textOf(idsOf(choice).token_ids)).toBe(choice.text)
    }
    const starts = await Promise.all(
      whole.choices.map((choice) => textOf(idsOf(choice).prompt_token_ids)),
    )
    expect(starts.map((text) => text.includes('Mira'))).toEqual([true, true, false, false])
    const chunks = await all(await client.completions.create({ ...warm, stream: true }))
    for (const { index, ...choice } of whole.choices) {
      const own = chunks.flatMap((chunk) => chunk.choices.filter((each) => each.index === index))
      expect(own.flatMap((each) => idsOf(each).token_ids ?? [])).toEqual(idsOf(choice).token_ids)
      const prompts = own.map((each) => idsOf(each).prompt_token_ids)
      expect(prompts[0]).toEqual(idsOf(choice).prompt_token_ids)
      expect(prompts.slice(1).every((each) => each === undefined)).toBe(true)
    }
  })

  it('absent or false - there are no ids', async () => {
    for (const fields of [{}, { return_token_ids: false }] as object[]) {
      const reply = await client.completions.create({ ...completion, ...fields, stream: false })
      expect(idsOf(reply.choices[0])).not.toHaveProperty('token_ids')
      expect(idsOf(reply.choices[0])).not.toHaveProperty('prompt_token_ids')
    }
  })

  it('not a boolean - is refused with the name of the field', async () => {
    const wrong = { return_token_ids: 'yes' } as object
    const refused = client.completions.create({ ...completion, ...wrong, stream: false })
    await expect(refused).rejects.toMatchObject({ status: 400, param: 'return_token_ids' })
  })
})
