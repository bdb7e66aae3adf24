import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const BODY_LIMIT = 45 * 1024 * 1024

interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Sends requests over the sockets of a real server; tests of single fields are next to the source. */
describe('the HTTP API of a running server', () => {
  let server: RunningServer
  let prefillId = ''
  let decodeId = ''
  beforeAll(async () => {
    server = await startServer([])
    const ids = [...server.printed().matchAll(/worker .* id (\d+)$/gm)].map((match) => match[1])
    prefillId = ids[0] ?? ''
    decodeId = ids[1] ?? ''
  })
  afterAll(async () => {
    await server.stop()
  })

  async function post(
    path: string,
    body: Record<string, unknown> | Uint8Array<ArrayBuffer>,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    const reply = await fetch(`${server.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: body instanceof Uint8Array ? body : JSON.stringify(body),
    })
    return { status: reply.status, headers: reply.headers, text: await reply.text() }
  }
  const hello = {
    model: 'storyteller',
    messages: [{ role: 'user', content: 'Hello' }],
    temperature: 0,
    max_tokens: 3,
  }
  const chat = (fields: Record<string, unknown>, headers: Record<string, string> = {}) =>
    post('/v1/chat/completions', { ...hello, ...fields }, headers)
  const completion = (fields: Record<string, unknown>) =>
    post('/v1/completions', { model: 'storyteller', temperature: 0, max_tokens: 3, ...fields })
  const json = (reply: Reply): unknown => JSON.parse(reply.text)

  it('annotations - are sent as events with comment lines before the chunks', async () => {
    const annotations = ['request_id', 'formatted_prompt', 'token_ids']
    const { text, headers } = await chat({ stream: true, nvext: { annotations } })
    const [id, prompt, tokens, chunk] = text.split('\n\n')
    expect(id).toBe(`event: request_id\n: "${headers.get('x-request-id')}"`)
    expect(prompt).toMatch(/^event: formatted_prompt\n: ".*Hello.*"$/)
    expect(tokens).toMatch(/^event: token_ids\n: \[\d+(,\d+)*\]$/)
    expect(chunk).toMatch(/^data: \{.*"role":"assistant"/)
  })

  it('continuous_usage_stats - usage is on every chunk and grows', async () => {
    const { text } = await chat({ stream: true, stream_options: { continuous_usage_stats: true } })
    const counts = [...text.matchAll(/"completion_tokens":(\d+)/g)].map((match) => Number(match[1]))
    expect(counts).toEqual([1, 2, 3, 3])
  })

  it.each(['x-worker-instance-id', 'x-dynamo-worker-instance-id'])(
    '%s - decode runs on that worker; refused without a prefill worker',
    async (name) => {
      const nvext = { extra_fields: ['worker_id'] }
      const both = { [name]: decodeId, 'x-prefill-instance-id': prefillId }
      const { text } = await chat({ nvext }, both)
      expect(text).toContain(`"prefill_worker_id":${prefillId},`)
      expect(text).toContain(`"decode_worker_id":${decodeId},`)
      const alone = await chat({ nvext }, { [name]: decodeId })
      expect([alone.status, alone.text]).toEqual([
        400,
        expect.stringContaining('x-dynamo-prefill-instance-id'),
      ])
    },
  )

  it.each(['x-prefill-instance-id', 'x-dynamo-prefill-instance-id'])(
    '%s - prefill runs on that worker, and the header takes precedence over the body',
    async (name) => {
      const nvext = { extra_fields: ['worker_id'], prefill_worker_id: 77 }
      const { text } = await chat({ nvext }, { [name]: prefillId })
      expect(text).toContain(`"prefill_worker_id":${prefillId},`)
      const lost = await chat({}, { [name]: '18446744073709551615' })
      expect([lost.status, lost.text]).toEqual([
        400,
        expect.stringContaining('18446744073709551615'),
      ])
      expect((await chat({}, { [name]: 'not-a-number' })).status).toBe(200)
    },
  )

  it('ranks - 4294967295 means unset; a rank that the named worker does not have is refused', async () => {
    const pins = { 'x-worker-instance-id': decodeId, 'x-prefill-instance-id': prefillId }
    for (const name of ['x-dp-rank', 'x-dynamo-prefill-dp-rank']) {
      expect((await chat({}, { [name]: '4294967295', ...pins })).status).toBe(200)
      expect((await chat({}, { [name]: '0' })).status).toBe(200)
      expect((await chat({}, { [name]: '3' })).status).toBe(400)
      const refused = await chat({}, { [name]: '3', ...pins })
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('rank 3')])
    }
  })

  it('x-request-id - is echoed, also on errors and streams, and can be looked up under /debug', async () => {
    const id = { 'x-request-id': 'my-request-1' }
    for (const fields of [{}, { stream: true }, { temperature: 9 }]) {
      expect((await chat(fields, id)).headers.get('x-request-id')).toBe('my-request-1')
    }
    expect((await fetch(`${server.url}/debug/requests/my-request-1`)).status).toBe(200)
  })

  it('x-tenant-id - tenants do not share cached blocks', async () => {
    const content = 'Ben has a green lamp and lives in the tower. '.repeat(20)
    const cached = async (tenant: string) => {
      const { text } = await chat(
        { messages: [{ role: 'user', content }] },
        { 'x-tenant-id': tenant },
      )
      return Number(/"cached_tokens":(\d+)/.exec(text)?.[1])
    }
    await cached('a')
    expect(await cached('a')).toBeGreaterThan(100)
    expect(await cached('b')).toBe(0)
  })

  it('completions - echo, token ids, lists of ids, and echo with logprobs work; suffix is refused', async () => {
    expect((await completion({ prompt: 'Once', echo: true })).text).toContain('"text":"Once ')
    const tokens = (await post('/tokenize', { model: 'storyteller', prompt: 'Once upon' })).text
    const ids = (JSON.parse(tokens) as { tokens: number[] }).tokens
    const [ofText, ofIds] = [
      await completion({ prompt: 'Once upon' }),
      await completion({ prompt: [ids, ids] }),
    ]
    const texts = (reply: Reply) =>
      (json(reply) as { choices: { text: string }[] }).choices.map((choice) => choice.text)
    expect(texts(ofIds)).toEqual([...texts(ofText), ...texts(ofText)])
    const refused = await completion({ prompt: 'Once', suffix: 'x' })
    expect(json(refused)).toMatchObject({
      error: { param: 'suffix', code: 'unsupported_parameter' },
    })
    const echoed = json(await completion({ prompt: 'Once', echo: true, logprobs: 1 })) as {
      choices: { text: string; logprobs: { tokens: string[]; token_logprobs: unknown[] } }[]
    }
    // The first token of a prompt has no log-probability.
    const [{ text, logprobs } = expect.fail('no choice')] = echoed.choices
    expect(text).toMatch(/^Once/)
    expect(logprobs.token_logprobs[0]).toBeNull()
    expect(logprobs.token_logprobs).toHaveLength(logprobs.tokens.length)
  })

  it('tokenize and detokenize - are inverse', async () => {
    const prompt = 'Once upon a time – ünïcode 🦊'
    const { tokens } = json(await post('/tokenize', { model: 'storyteller', prompt })) as {
      tokens: number[]
    }
    expect(json(await post('/detokenize', { model: 'storyteller', tokens }))).toEqual({ prompt })
  })

  it('models - lists one model, ready with its workers; an unknown name is 404', async () => {
    const get = async (path: string) => {
      const reply = await fetch(`${server.url}/v1/models/${path}`)
      return [reply.status, await reply.json()]
    }
    expect(await get('storyteller/ready')).toEqual([
      200,
      { model: 'storyteller', ready: true, worker_types: { prefill: 1, decode: 1 } },
    ])
    expect(await get('nope/ready')).toMatchObject([404, { error: { code: 'model_not_found' } }])
  })

  it('request bodies - control characters and invalid UTF-8 are accepted; the limit is 45 MiB', async () => {
    const raw = Buffer.from(
      '{"max_tokens":1,"messages":[{"role":"user","content":"a\tb\xff\n"}]}',
      'latin1',
    )
    expect((await post('/v1/chat/completions', Uint8Array.from(raw))).status).toBe(200)
    // Bodies up to the limit are read, and then refused as invalid JSON.
    for (const bytes of [BODY_LIMIT - 1, BODY_LIMIT]) {
      expect((await post('/v1/chat/completions', new Uint8Array(bytes))).status).toBe(400)
    }
    const over = await post('/v1/chat/completions', new Uint8Array(BODY_LIMIT + 1))
    expect([over.status, json(over)]).toMatchObject([
      413,
      { error: { code: 'request.payload_too_large', type: 'invalid_request_error' } },
    ])
    const id = { 'x-request-id': 'too-big' }
    const anthropic = await post('/v1/messages', new Uint8Array(BODY_LIMIT + 1), id)
    expect([anthropic.status, anthropic.headers.get('request-id'), json(anthropic)]).toMatchObject([
      413,
      'too-big',
      { type: 'error', error: { type: 'request_too_large' } },
    ])
  })

  it('reasoning - is separated from the answer and limited by max_thinking_tokens', async () => {
    const messages = [
      { role: 'user', content: 'Simon has a pink rope. What does Simon have? /think' },
    ]
    const reply = await chat({ messages, max_tokens: 80 })
    const said = (of: Reply) =>
      (json(of) as { choices: { message: { content: string; reasoning_content: string } }[] })
        .choices[0]?.message
    expect(said(reply)?.reasoning_content).toContain('What does Simon have?')
    expect(said(reply)?.content).toContain('Simon has a pink rope.')
    const short = await chat({ messages, max_tokens: 80, nvext: { max_thinking_tokens: 4 } })
    const thought = said(short)?.reasoning_content ?? ''
    expect(thought).not.toBe('')
    expect(thought.length).toBeLessThan((said(reply)?.reasoning_content ?? '').length)
    expect(said(short)?.content).not.toContain('think>')
  })

  it('embeddings - run on the prefill worker, or on the one that a header names', async () => {
    const workerOf = async (headers: Record<string, string>) => {
      const reply = await post('/v1/embeddings', { input: 'hi' }, headers)
      expect([reply.status, json(reply)]).toMatchObject([200, { usage: { prompt_tokens: 2 } }])
      const id = reply.headers.get('x-request-id')
      return await (await fetch(`${server.url}/debug/requests/${id}`)).text()
    }
    expect(await workerOf({})).toContain(prefillId)
    expect(await workerOf({ 'x-worker-instance-id': decodeId })).toContain(decodeId)
  })
})
