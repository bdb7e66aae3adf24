import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { ScriptedOptions } from '../../test/frontend/scripted-frontend.ts'
import { ScriptedFrontend, storyteller, WORKER } from '../../test/frontend/scripted-frontend.ts'

const ids = (text: string): number[] =>
  Array.from(storyteller().tokenizer.encode(text, { special: false }))
const SAYS = 'Once upon a time, there was a brave fox – and a café. 🦊'

describe('chat completions', () => {
  it('a whole reply - text, finish reason and usage', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed().says(SAYS).ends('eos') })
    const reply = await it_.chat({ max_tokens: 200 })
    expect(reply.status).toBe(200)
    const { json } = reply
    expect(json).toMatchObject({
      object: 'chat.completion',
      model: 'storyteller',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: SAYS, refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
    })
    const count = storyteller().tokenizer.encode(SAYS, { special: false }).length
    const [request] = it_.requests
    expect(json.usage).toEqual({
      prompt_tokens: request?.tokenIds.length,
      completion_tokens: count,
      total_tokens: count + (request?.tokenIds.length ?? 0),
    })
    expect(json.id).toBe(`chatcmpl-${request?.requestId}`)
    const prompt = storyteller().tokenizer.decode(request?.tokenIds ?? [], {
      skipSpecialTokens: false,
    })
    expect(prompt).toBe('<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n')
  })

  it('a stream - role once, text in pieces, finish, usage, [DONE]', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed().says(SAYS).ends('length'),
    })
    const reply = await it_.chat({ stream: true, stream_options: { include_usage: true } })
    expect(reply.headers['content-type']).toBe('text/event-stream; charset=utf-8')
    const { events } = reply
    expect(reply.ended).toBe(true)
    expect(events.at(-1)).toBe('[DONE]')
    expect(events[0].choices[0].delta.role).toBe('assistant')
    expect(events.slice(1, -1).some((event) => event.choices[0]?.delta.role)).toBe(false)
    expect(reply.text()).toBe(SAYS)
    expect(events.at(-3)).toMatchObject({
      choices: [{ index: 0, delta: {}, finish_reason: 'length' }],
      usage: null,
    })
    expect(events.at(-2)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: it_.requests[0]?.tokenIds.length },
    })
  })

  it('stop string - the text is cut, the worker is stopped, usage counts what was generated', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed().says('one two STOP three'),
    })
    const reply = await it_.chat({ stop: ['STOP'] })
    expect(reply.json.choices[0]).toMatchObject({
      message: { content: 'one two ' },
      finish_reason: 'stop',
    })
    expect(it_.runs[0]?.cancels).toEqual(['stop'])
    const all = storyteller().tokenizer.encode('one two STOP three', { special: false }).length
    expect(reply.json.usage.completion_tokens).toBeLessThan(all)
    expect(it_.frontend.requestsInFlight).toBe(0)
  })

  it('stop string at the very end - is found when the reply ends', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed().says('a b').ends('length'),
    })
    const reply = await it_.chat({ stop: ' b', nvext: { extra_fields: ['stop_reason'] } })
    expect(reply.json.choices[0].message.content).toBe('a')
    expect(reply.json.nvext).toEqual({ stop_reason: ' b' })
  })

  it("cached tokens - are taken from the worker's usage", async () => {
    const it_ = new ScriptedFrontend({
      script: (run) =>
        void run.says('one').ends('stop', {
          usage: { promptTokens: 11, completionTokens: 1, totalTokens: 12, cachedTokens: 7 },
        }),
    })
    const reply = await it_.chat()
    expect(reply.json.usage.prompt_tokens_details).toEqual({ cached_tokens: 7 })
  })

  it('n - one request per choice, with different seeds; choices ordered by index', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => void run.says(`choice ${nth}`).ends('stop'),
    })
    const reply = await it_.chat({ n: 3, seed: 40, temperature: 0.7 })
    expect(it_.requests.map((request) => request.sampling.seed)).toEqual([40, 41, 42])
    expect(new Set(it_.requests.map((request) => request.requestId)).size).toBe(3)
    // oxlint-disable-next-line typescript/no-explicit-any -- JSON
    expect(reply.json.choices.map((choice: any) => choice.message.content)).toEqual([
      'choice 0',
      'choice 1',
      'choice 2',
    ])
    expect(reply.json.usage).toMatchObject({ prompt_tokens: it_.requests[0]?.tokenIds.length })
  })

  it('x-request-id - is echoed, and is the id of the request when it is a safe name', async () => {
    const it_ = new ScriptedFrontend()
    const uuid = '0b9d2d3c-6a43-4d4c-9e0c-1f6a6c7d8e9f'
    expect((await it_.chat({}, { 'x-request-id': uuid })).headers['x-request-id']).toBe(uuid)
    expect((await it_.chat({}, { 'x-request-id': 'mine' })).headers['x-request-id']).toBe('mine')
    expect(it_.requests[0]?.requestId).toBe(uuid)
    expect(it_.requests[1]?.requestId).toBe('mine')
    await it_.chat({}, { 'x-request-id': 'not one/name' })
    expect(it_.requests[2]?.requestId).not.toBe('not one/name')
  })
})

describe('completions', () => {
  it('several prompts times n - choices in order, usage summed', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => void run.says(`t${nth}`).ends('stop'),
    })
    const reply = await it_.completion({ prompt: ['hi', 'a'], n: 2, temperature: 1 })
    // oxlint-disable-next-line typescript/no-explicit-any -- JSON
    expect(reply.json.choices.map((choice: any) => [choice.index, choice.text])).toEqual([
      [0, 't0'],
      [1, 't1'],
      [2, 't2'],
      [3, 't3'],
    ])
    const [hi, a] = ['hi', 'a'].map((text) => ids(text))
    expect(it_.requests.map((request) => Array.from(request.tokenIds))).toEqual([hi, hi, a, a])
    expect(reply.json.usage.prompt_tokens).toBe((hi?.length ?? 0) + (a?.length ?? 0))
    expect(reply.json.id).toMatch(/^cmpl-/)
  })

  it('echo - the prompt precedes the text, also in a stream', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.says(' there').ends('stop') })
    expect((await it_.completion({ echo: true })).json.choices[0].text).toBe('hi there')
    expect((await it_.completion({ echo: true, stream: true })).text()).toBe('hi there')
    expect((await it_.completion({ echo: true, prompt: ids('hi') })).json.choices[0].text).toBe(
      'hi there',
    )
  })

  it('max_tokens 0 with echo - only the prompt; no worker is asked', async () => {
    const it_ = new ScriptedFrontend()
    const reply = await it_.completion({ echo: true, max_tokens: 0 })
    expect(reply.json.choices[0]).toMatchObject({ text: 'hi', finish_reason: 'length' })
    expect(it_.runs).toHaveLength(0)
  })

  it('token ids outside the vocabulary - are refused with the number', async () => {
    const reply = await new ScriptedFrontend().completion({ prompt: [5, 99_999_999] })
    expect(reply.status).toBe(400)
    expect(reply.json.error.message).toContain('99999999')
  })

  it('logprobs - four parallel lists', async () => {
    const [fox = 0] = ids('!')
    const [the = 0] = ids(' the')
    const it_ = new ScriptedFrontend({
      script: (run) =>
        void run
          .chunk({
            tokenIds: [fox],
            logprobs: [
              {
                tokenId: fox,
                logprob: -0.5,
                top: [
                  { tokenId: fox, logprob: -0.5 },
                  { tokenId: the, logprob: -1.5 },
                ],
              },
            ],
          })
          .chunk({ tokenIds: [the], logprobs: [{ tokenId: the, logprob: -0.1, top: [] }] })
          .ends('stop'),
    })
    const reply = await it_.completion({ logprobs: 2 })
    expect(reply.json.choices[0].logprobs).toEqual({
      tokens: ['!', ' the'],
      token_logprobs: [-0.5, -0.1],
      top_logprobs: [{ '!': -0.5, ' the': -1.5 }, { ' the': -0.1 }],
      text_offset: [0, 1],
    })
  })
})

describe('status', () => {
  it('models - are listed and found; 404 for others; ready', async () => {
    const it_ = new ScriptedFrontend({ engine: { modelAliases: ['org/alias'] } })
    // oxlint-disable-next-line typescript/no-explicit-any -- JSON
    expect((await it_.get('/v1/models')).json.data.map((entry: any) => entry.id)).toEqual([
      'storyteller',
      'org/alias',
    ])
    expect((await it_.get('/v1/models/org%2Falias')).json.id).toBe('org/alias')
    expect((await it_.get('/v1/models/storyteller/ready')).json.ready).toBe(true)
    const unknown = await it_.get('/v1/models/org/nope/ready')
    expect([unknown.status, unknown.json.error.message]).toEqual([
      404,
      'The model `org/nope` does not exist.',
    ])
    const missing = await it_.get('/v1/models/other')
    expect([missing.status, missing.json.error.code]).toEqual([404, 'model_not_found'])
    const long = await it_.post('/tokenize', { model: 'm'.repeat(100_000), prompt: 'a' })
    expect(long.status).toBe(404)
    expect(long.body.length).toBeLessThan(1000)
  })

  it('health - worker ids are integers with all digits', async () => {
    const reply = await new ScriptedFrontend().get('/health')
    expect(reply.status).toBe(200)
    expect(reply.body).toContain(`"worker_id":${WORKER}`)
  })

  it('no worker yet - health and chat are 503 in JSON; live is 200', async () => {
    const it_ = new ScriptedFrontend({ empty: true })
    expect((await it_.get('/health')).status).toBe(503)
    expect((await it_.get('/live')).status).toBe(200)
    const reply = await it_.chat()
    expect([reply.status, reply.json.error.type]).toEqual([503, 'service_unavailable'])
  })

  it.each([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }] }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }], stream: true }],
    ['/v1/completions', { prompt: 'hi' }],
    ['/v1/responses', { input: 'hi' }],
    ['/v1/responses/input_tokens', { input: 'hi' }],
    ['/v1/messages', { messages: [{ role: 'user', content: 'hi' }], max_tokens: 1 }],
    ['/v1/messages/count_tokens', { messages: [{ role: 'user', content: 'hi' }] }],
    ['/v1/embeddings', { input: 'hi' }],
    ['/tokenize', { prompt: 'hi' }],
    ['/detokenize', { tokens: [1] }],
  ])('no model at all - %s says so in JSON', async (path, body) => {
    const it_ = new ScriptedFrontend({ empty: true })
    for (const model of [{}, { model: 'storyteller' }]) {
      // Requests in the Anthropic form always name a model.
      if (path.startsWith('/v1/messages') && !('model' in model)) continue
      const { status, json, headers } = await it_.post(path, { ...body, ...model })
      expect(status).toBe(503)
      expect(json.error.message).toMatch(/No model is served/)
      expect(Number(headers['retry-after'])).toBeGreaterThan(0)
    }
  })

  it('ready - 200 with a model that can be served, otherwise 503', async () => {
    const ready = async (options: ScriptedOptions) => {
      const { status, json } = await new ScriptedFrontend(options).get('/ready')
      return [status, json.ready]
    }
    expect(await ready({})).toEqual([200, true])
    expect(await ready({ empty: true })).toEqual([503, false])
    expect(await ready({ canServe: () => false })).toEqual([503, false])
    const leaving = new ScriptedFrontend()
    leaving.frontend.drain()
    expect((await leaving.get('/ready')).json).toEqual({ ready: false, reason: 'draining' })
  })

  it('workers that cannot serve - 503 with a reason and retry-after', async () => {
    const it_ = new ScriptedFrontend({ canServe: () => false })
    const reply = await it_.chat()
    expect(reply.status).toBe(503)
    expect(reply.headers['retry-after']).toBe('1')
  })

  it('draining - new requests 503, live 200, health 503', async () => {
    const it_ = new ScriptedFrontend()
    it_.frontend.drain()
    expect((await it_.chat()).status).toBe(503)
    expect((await it_.get('/live')).status).toBe(200)
    expect((await it_.get('/health')).status).toBe(503)
  })

  it('unknown route and wrong method - 404 and 405 in JSON', async () => {
    const it_ = new ScriptedFrontend()
    expect((await it_.get('/nope')).json.error.message).toContain('GET /nope')
    const wrong = await it_.get('/v1/chat/completions')
    expect([wrong.status, wrong.headers['allow']]).toEqual([405, 'POST'])
  })

  it('openapi - is made from the schemas', async () => {
    const { json } = await new ScriptedFrontend().get('/openapi.json')
    const chat = json.paths['/v1/chat/completions'].post.requestBody.content['application/json']
    expect(chat.schema.properties.nvext.properties.agent_hints.properties.osl.type).toBe('integer')
  })

  it('openapi, docs and docs/http-api.md - list every route of the server and no others', async () => {
    const it_ = new ScriptedFrontend()
    const page = (await it_.get('/docs')).body
    const manual = readFileSync('docs/http-api.md', 'utf8')
    const { json } = await it_.get('/openapi.json')
    const documented = Object.entries<object>(json.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => [method.toUpperCase(), path] as const),
    )
    for (const [method, path] of documented) {
      expect(page).toContain(`<b>${method}</b> <code>${path}</code>`)
      expect(manual).toContain(`\`${path.replace(/^\/v1(\/(de)?tokenize)$/, '$1')}\``)
      const reply = await it_.send(method, path.replace('{id}', 'storyteller'), { body: '{}' })
      expect([path, reply.status]).not.toEqual([path, 405])
      expect([path, reply.body]).not.toEqual([path, expect.stringContaining('Route not found')])
    }
    const written = documented.map((each) => each.join(' '))
    for (const { method, path } of it_.frontend.routes)
      expect(written).toContain(`${method} ${path.replace('...}', '}')}`)
  })

  it('busy thresholds - are read and set in part; unknown model 404', async () => {
    const it_ = new ScriptedFrontend()
    const set = await it_.post('/busy_threshold', {
      model: 'storyteller',
      active_decode_blocks_threshold: 0.5,
      active_prefill_tokens_threshold: null,
    })
    expect(set.json.active_decode_blocks_threshold).toBe(0.5)
    expect((await it_.get('/busy_threshold')).json.thresholds).toHaveLength(1)
    expect((await it_.post('/busy_threshold', { model: 'x' })).status).toBe(404)
  })

  it.each<[string, Record<string, unknown>]>([
    ['tools', { tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }],
    ['a turn that is gone on with', { continue_final_message: true }],
    ['no turn begun', { add_generation_prompt: false }],
    ['variables of the template', { chat_template_kwargs: { enable_thinking: false } }],
  ])('tokenize with %s - gives the ids of the same chat', async (_, fields) => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.says('x').ends('eos') })
    const messages = [
      { role: 'user', content: 'hi' },
      ...(fields['continue_final_message'] === true ? [{ role: 'assistant', content: 'We' }] : []),
    ]
    expect((await it_.chat({ messages, ...fields })).status).toBe(200)
    const { json } = await it_.post('/tokenize', { messages, ...fields, return_token_strs: true })
    expect(json.tokens).toEqual(Array.from(it_.requests[0]?.tokenIds ?? []))
    expect(json.token_strs).toHaveLength(json.count)
    const refused = await it_.post('/tokenize', { prompt: 'hi', ...fields })
    const [name] = Object.keys(fields)
    const isNothing = name === 'add_generation_prompt'
    if (isNothing) expect(refused.status).toBe(200)
    else expect([refused.status, refused.json.error.param]).toEqual([400, name])
  })

  it('tokenize and detokenize - are inverse', async () => {
    const it_ = new ScriptedFrontend()
    const { json } = await it_.post('/tokenize', { prompt: 'hi there' })
    expect((await it_.post('/detokenize', { tokens: json.tokens })).json.prompt).toBe('hi there')
    const chat = await it_.post('/tokenize', { messages: [{ role: 'user', content: 'hi' }] })
    const words = '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
    const again = await it_.post('/detokenize', { tokens: chat.json.tokens })
    expect(again.json.prompt).toBe(words)
  })
})

describe('GET /debug/requests', () => {
  it('limit - as many requests; anything but a number from 1 to 100 is 400', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed().says('a').ends('eos') })
    for (let i = 0; i < 3; i++) await it_.chat({})
    const get = (query: string) => it_.send('GET', '/debug/requests', { query })
    expect((await get('')).json.requests).toHaveLength(3)
    expect((await get('limit=2')).json.requests).toHaveLength(2)
    for (const bad of ['x', '0', '101', '-1', '1.5', '0x10', '1e1', '']) {
      const { status, json } = await get(`limit=${bad}`)
      expect([status, json.error?.param], bad).toEqual([400, 'limit'])
    }
  })
})
