import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createParser } from 'eventsource-parser'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'

const PROMPT = 'Once upon a time there was a brave fox named Mira.'

interface Generated {
  readonly request_id: string
  readonly prompt_logprobs: readonly (Record<string, { logprob: number }> | null)[] | null
  readonly choices: readonly {
    readonly index: number
    readonly token_ids: readonly number[]
    readonly finish_reason: string | null
    readonly logprobs: { content: { token_id: number; logprob: number }[] } | null
  }[]
  readonly usage: { prompt_tokens: number; completion_tokens: number } | null
}

describe.each([
  ['one prefill and one decode worker', []],
  ['one worker for all', ['--aggregated', '1', '--prefill', '0', '--decode', '0']],
])('fields that evaluation and training tools use, %s', (_what, args) => {
  let server: RunningServer
  let openai: OpenAI
  beforeAll(async () => {
    server = await startServer(args)
    openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(async () => {
    await server.stop()
  })

  async function post(path: string, body: unknown): Promise<Response> {
    const headers = { 'content-type': 'application/json' }
    return await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  }
  async function idsOf(prompt: string): Promise<number[]> {
    const reply = await post('/tokenize', { prompt })
    return ((await reply.json()) as { tokens: number[] }).tokens
  }
  const complete = (fields: object) =>
    openai.completions.create({
      model: 'storyteller',
      prompt: PROMPT,
      temperature: 0,
      max_tokens: 1,
      stream: false,
      ...fields,
    })

  it('echo with logprobs - one per token, none for the first, and repeatable', async () => {
    const ids = await idsOf(PROMPT)
    const { choices } = await complete({ echo: true, logprobs: 2 })
    const [first] = choices
    const {
      tokens = [],
      token_logprobs: scores = [],
      text_offset: offsets = [],
    } = first?.logprobs ?? {}
    expect(tokens).toHaveLength(ids.length + 1)
    expect(tokens.join('')).toBe(first?.text)
    expect(first?.text.startsWith(PROMPT)).toBe(true)
    expect(scores[0]).toBeNull()
    expect(scores.slice(1).every((score) => score <= 0 && score > -40)).toBe(true)
    expect(offsets).toEqual(tokens.map((_, at) => tokens.slice(0, at).join('').length))
    expect(first?.logprobs?.top_logprobs?.[0]).toBeNull()
    expect(Object.keys(first?.logprobs?.top_logprobs?.[3] ?? {}).length).toBeGreaterThanOrEqual(2)
    const again = await complete({ echo: true, logprobs: 2 })
    expect(again.choices[0]?.logprobs).toEqual(first?.logprobs)
  })

  it('echo with logprobs - a token has the same score as when it was generated', async () => {
    const nvext = { extra_fields: ['completion_token_ids'] }
    const written = await complete({ max_tokens: 12, logprobs: 0, nvext })
    const { nvext: shown } = written as unknown as { nvext: { completion_token_ids: number[] } }
    const ids = [...(await idsOf(PROMPT)), ...shown.completion_token_ids]
    const scored = await complete({ prompt: ids, max_tokens: 0, echo: true, logprobs: 0 })
    expect(scored.usage?.completion_tokens).toBe(0)
    const own = written.choices[0]?.logprobs?.token_logprobs ?? []
    const seen = scored.choices[0]?.logprobs?.token_logprobs?.slice(-own.length) ?? []
    expect(own).toHaveLength(12)
    // With 8-bit weights a prompt, computed in larger batches, gives slightly other values than single tokens.
    own.forEach((score, at) => expect(Math.abs((seen[at] ?? 99) - score)).toBeLessThan(0.15))
  })

  it('echo with logprobs, streamed - same as not streamed', async () => {
    const whole = await complete({ echo: true, logprobs: 1, max_tokens: 5 })
    const reply = await post('/v1/completions', {
      prompt: PROMPT,
      temperature: 0,
      max_tokens: 5,
      echo: true,
      logprobs: 1,
      stream: true,
    })
    const tokens: string[] = []
    const scores: (number | null)[] = []
    let text = ''
    const parser = createParser({
      onEvent: ({ data }) => {
        if (data === '[DONE]') return
        const { choices } = JSON.parse(data) as { choices: OpenAI.CompletionChoice[] }
        text += choices[0]?.text ?? ''
        tokens.push(...(choices[0]?.logprobs?.tokens ?? []))
        scores.push(...(choices[0]?.logprobs?.token_logprobs ?? []))
      },
    })
    parser.feed(await reply.text())
    expect(text).toBe(whole.choices[0]?.text)
    expect(tokens).toEqual(whole.choices[0]?.logprobs?.tokens)
    expect(scores).toEqual(whole.choices[0]?.logprobs?.token_logprobs)
  })

  it('prompt_logprobs - work in completions and chat, refused in a stream', async () => {
    const ids = await idsOf(PROMPT)
    const reply = await post('/v1/completions', { prompt: ids, max_tokens: 1, prompt_logprobs: 1 })
    const { choices } = (await reply.json()) as {
      choices: { prompt_logprobs: (Record<string, { logprob: number }> | null)[] }[]
    }
    const scores = choices[0]?.prompt_logprobs ?? []
    expect(scores).toHaveLength(ids.length)
    expect(scores[0]).toBeNull()
    ids.forEach((id, at) => {
      if (at > 0) expect(scores[at]?.[String(id)]?.logprob).toBeLessThanOrEqual(0)
    })
    const chat = await post('/v1/chat/completions', {
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 1,
      prompt_logprobs: 0,
    })
    const body = (await chat.json()) as {
      prompt_logprobs: unknown[]
      usage: { prompt_tokens: number }
    }
    expect(body.prompt_logprobs).toHaveLength(body.usage.prompt_tokens)
    for (const wrong of [
      { prompt_logprobs: 21 },
      { prompt_logprobs: -1 },
      { prompt_logprobs: 1, stream: true },
    ])
      expect((await post('/v1/completions', { prompt: ids, ...wrong })).status).toBe(400)
  })

  it('/inference/v1/generate - takes and returns token ids, streamed or not, with log-probabilities', async () => {
    const ids = await idsOf(PROMPT)
    const ask = {
      model: 'storyteller',
      token_ids: ids,
      sampling_params: { max_tokens: 9, temperature: 0, logprobs: 1, prompt_logprobs: 0 },
    }
    const whole = (await (await post('/inference/v1/generate', ask)).json()) as Generated
    const [choice] = whole.choices
    expect(whole.prompt_logprobs).toHaveLength(ids.length)
    expect(whole.usage).toMatchObject({ prompt_tokens: ids.length, completion_tokens: 9 })
    expect(choice?.finish_reason).toBe('length')
    expect(choice?.logprobs?.content.map((entry) => entry.token_id)).toEqual(choice?.token_ids)
    const text = await complete({ max_tokens: 9 })
    const back = await post('/detokenize', { tokens: choice?.token_ids })
    expect(((await back.json()) as { prompt: string }).prompt).toBe(text.choices[0]?.text)

    const reply = await post('/inference/v1/generate', {
      ...ask,
      sampling_params: { max_tokens: 9, temperature: 0 },
      stream: true,
      stream_options: { include_usage: true },
    })
    const streamed: number[] = []
    let usage: Generated['usage'] = null
    const parser = createParser({
      onEvent: ({ data }) => {
        if (data === '[DONE]') return
        const event = JSON.parse(data) as Generated
        streamed.push(...(event.choices[0]?.token_ids ?? []))
        usage = event.usage ?? usage
      },
    })
    parser.feed(await reply.text())
    expect(streamed).toEqual(choice?.token_ids)
    expect(usage).toMatchObject({ completion_tokens: 9 })
  })

  it('/inference/v1/generate - errors name the invalid field', async () => {
    const wrong: readonly (readonly [object, string])[] = [
      [{ token_ids: [], sampling_params: {} }, 'token_ids'],
      [{ token_ids: [4_000_000], sampling_params: {} }, 'token_ids'],
      [{ token_ids: [1], sampling_params: { temperature: 3 } }, 'sampling_params.temperature'],
      [{ token_ids: [1], sampling_params: { no_such: 1 } }, 'sampling_params.no_such'],
      [{ token_ids: [1] }, 'sampling_params'],
    ]
    for (const [body, param] of wrong) {
      const reply = await post('/inference/v1/generate', body)
      const { error } = (await reply.json()) as { error: { param: string } }
      expect([reply.status, error.param]).toEqual([400, param])
    }
  })

  it('completion_token_ids - are on every chunk and add up to those of the whole reply', async () => {
    const nvext = { extra_fields: ['completion_token_ids'] }
    const ask = {
      messages: [{ role: 'user', content: 'Simon has a pink rope. What does Simon have? /think' }],
      max_tokens: 60,
      temperature: 0,
      nvext,
    }
    const whole = (await (await post('/v1/chat/completions', ask)).json()) as {
      nvext: { completion_token_ids: number[] }
    }
    const reply = await post('/v1/chat/completions', { ...ask, stream: true })
    const ids: number[] = []
    let chunks = 0
    const parser = createParser({
      onEvent: ({ data }) => {
        if (data === '[DONE]') return
        const event = JSON.parse(data) as typeof whole
        if (event.nvext?.completion_token_ids === undefined) return
        chunks += 1
        ids.push(...event.nvext.completion_token_ids)
      },
    })
    parser.feed(await reply.text())
    expect(ids).toEqual(whole.nvext.completion_token_ids)
    expect(chunks).toBeGreaterThan(ids.length / 3)
  })

  it('best_of - returns the most likely candidates; n greater than best_of is refused', async () => {
    const ask = { temperature: 1, seed: 7, max_tokens: 8 }
    const all = await complete({ ...ask, n: 5, logprobs: 0 })
    const mean = (choice: OpenAI.CompletionChoice): number => {
      const scores = choice.logprobs?.token_logprobs ?? []
      return scores.reduce((sum, score) => sum + score, 0) / scores.length
    }
    const best = all.choices.toSorted((a, b) => mean(b) - mean(a)).slice(0, 2)
    const picked = await complete({ ...ask, n: 2, best_of: 5 })
    expect(picked.choices.map(({ text, index }) => [text, index])).toEqual(
      best.map(({ text }, index) => [text, index]),
    )
    expect(picked.choices[0]?.logprobs).toBeNull()
    expect(picked.usage?.completion_tokens).toBe(all.usage?.completion_tokens)
    await expect(complete({ ...ask, n: 3, best_of: 2 })).rejects.toThrow('best_of')
  })

  it('seeds and logit_bias - several prompts give the same results as each prompt alone', async () => {
    const prompts = [PROMPT, 'Count from 3 to 20.', 'A robot named Otto']
    const ask = { temperature: 1, seed: 11, max_tokens: 12, n: 2, logit_bias: { '735': -100 } }
    const batch = await complete({ ...ask, prompt: prompts })
    const alone = await Promise.all(prompts.map((prompt) => complete({ ...ask, prompt })))
    expect(batch.choices.map(({ text }) => text)).toEqual(
      alone.flatMap(({ choices }) => choices.map(({ text }) => text)),
    )
  })
})
