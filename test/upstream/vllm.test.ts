/** The vLLM adapter, tested with recorded answers of a real server. */
import { describe, expect, it } from 'vitest'
import { RequestContext } from '../../src/engine/index.ts'
import type { GenerateRequest } from '../../src/request/index.ts'
import { until } from '../until.ts'
import { chunksOf, requestOf, startedEngine, startedWithConfig, tokensOf } from './engine-kit.ts'
import {
  closeAfterwards,
  ABOUT,
  failureOf,
  recorded,
  served,
  validated,
} from './recorded-server.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'

describe('vLLM', () => {
  it('a recorded stream - gives tokens, cached tokens and finish reason', async () => {
    const { engine, bodies } = await served('vllm', recorded('vllm', 'cmpl_stream'))
    const request = requestOf({ stop: { maxTokens: 3 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(tokensOf(chunks)).toEqual([735, 706, 20])
    expect(chunks.at(-1)).toMatchObject({
      finish: 'length',
      usage: { promptTokens: 27, completionTokens: 3, cachedTokens: 0 },
    })
    expect(bodies()[0]).toMatchObject({
      model: 'storyteller',
      max_tokens: 3,
      temperature: 0,
      stream: true,
      return_token_ids: true,
      stream_options: { include_usage: true },
    })
  })

  it('a recorded stream of /inference/v1/generate - gives the same tokens, with log-probabilities by id', async () => {
    const { engine } = await served('vllm', recorded('vllm', 'generate_stream'))
    const request = requestOf({ output: { logprobs: 1 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(tokensOf(chunks)).toEqual([735, 706, 20, 265])
    expect(chunks[0]?.logprobs?.[0]).toMatchObject({ tokenId: 735, top: [{ tokenId: 735 }] })
  })

  it.each([403, 404])(
    '/inference/v1/generate is answered with %i after a restart - the same request uses /v1/completions, and so do the next ones',
    async (status) => {
      let isOn = true
      const server = await fakeServer((request) => {
        const about = ABOUT['vllm']?.[`${request.method} ${request.path}`]
        if (about !== undefined) return responseOf('vllm', about)
        if (request.path !== '/inference/v1/generate') return responseOf('vllm', 'cmpl_stream')
        if (!isOn) return jsonResponse(status, { error: { message: 'Scale-out is disabled' } })
        const isQuestion = request.body.includes('"token_ids":[]')
        return responseOf('vllm', isQuestion ? 'generate_err_empty' : 'generate_stream')
      })
      const notes: string[] = []
      const engine = await startedEngine({ url: server.url, onNote: (note) => notes.push(note) })
      closeAfterwards({ close: () => engine.cleanup() }, server)
      isOn = false
      const asked = server.seen.length
      const request = requestOf({ stop: { maxTokens: 3 } })
      const chunks = await chunksOf(engine, request)
      validated(request, chunks)
      expect(tokensOf(chunks)).toEqual([735, 706, 20])
      await chunksOf(engine, requestOf({ stop: { maxTokens: 3 } }))
      expect(server.seen.slice(asked).map(({ path }) => path)).toEqual([
        '/inference/v1/generate',
        '/v1/completions',
        '/v1/completions',
      ])
      expect(notes.filter((note) => note.includes('generate'))).toHaveLength(1)
    },
  )

  it('its key is changed - every request is refused with its words, and both routes stay known', async () => {
    let isOn = true
    const server = await fakeServer((request) => {
      const about = ABOUT['vllm']?.[`${request.method} ${request.path}`]
      if (about !== undefined) return responseOf('vllm', about)
      if (!isOn) return jsonResponse(403, { error: 'Unauthorized' })
      const isQuestion = request.body.includes('"token_ids":[]')
      return responseOf('vllm', isQuestion ? 'generate_err_empty' : 'generate_stream')
    })
    const engine = await startedEngine({ url: server.url })
    closeAfterwards({ close: () => engine.cleanup() }, server)
    isOn = false
    const error = await failureOf(chunksOf(engine, requestOf()))
    expect(error.message).toMatch(/refuses .*Unauthorized/)
    expect(error.row.migratable).toBe(true)
    isOn = true
    await chunksOf(engine, requestOf())
    expect(server.seen.at(-1)?.path).toBe('/inference/v1/generate')
  })

  it('its key is wrong from the start - is said so, and it is not taken for another kind of server', async () => {
    const server = await fakeServer(({ method, path }) => {
      if (path === '/v1/models') return jsonResponse(401, { error: 'Unauthorized' })
      const about = ABOUT['vllm']?.[`${method} ${path}`]
      return about === undefined ? undefined : responseOf('vllm', about)
    })
    closeAfterwards(server)
    await expect(startedEngine({ url: server.url })).rejects.toThrow(/refuses .*Unauthorized/)
  })

  it('adapters that it loads and unloads while it runs - are reported, also when nobody listens yet', async () => {
    const base = { id: 'storyteller', owned_by: 'vllm', max_model_len: 4096 }
    const data: object[] = [base]
    const server = await fakeServer(({ method, path }) => {
      if (path === '/v1/models') return jsonResponse(200, { data })
      const about = ABOUT['vllm']?.[`${method} ${path}`]
      return about === undefined ? undefined : responseOf('vllm', about)
    })
    const notes: string[] = []
    const engine = await startedEngine({
      url: server.url,
      watchMs: 5,
      onNote: (note) => notes.push(note),
    })
    closeAfterwards({ close: () => engine.cleanup() }, server)
    data.push({ id: 'poet', parent: 'storyteller' }, { id: 'bard', parent: 'storyteller' })
    await until('it is noticed', () => notes.some((note) => note.includes('bard, poet')))
    const told: (readonly string[])[] = []
    engine.observe({
      kvEvents: () => undefined,
      load: () => undefined,
      loraAdapters: (names) => told.push(names),
    })
    expect(told).toEqual([['poet', 'bard']])
    data.splice(1)
    await until('it is told', () => told.length === 2)
    expect(told[1]).toEqual([])
  })

  it('/inference/v1/generate if available - is used, except for structured output', async () => {
    const server = await fakeServer((request) => {
      const about = ABOUT['vllm']?.[`${request.method} ${request.path}`]
      if (about !== undefined) return responseOf('vllm', about)
      if (request.body.includes('"token_ids":[]')) return responseOf('vllm', 'generate_err_empty')
      return responseOf(
        'vllm',
        request.path.includes('generate') ? 'generate_stream' : 'cmpl_stream',
      )
    })
    const engine = await startedEngine({ url: server.url })
    closeAfterwards({ close: () => engine.cleanup() }, server)
    await chunksOf(engine, requestOf())
    const guided = { kind: 'choice' as const, choices: ['a'] }
    await chunksOf(engine, requestOf({ sampling: { guided } }))
    const paths = server.seen.map(({ path }) => path).filter((path) => /compl|generate/.test(path))
    expect(paths).toEqual(['/inference/v1/generate', '/inference/v1/generate', '/v1/completions'])
  })

  it('token names of log-probabilities on the OpenAI route - are converted to ids', async () => {
    const choice = (rest: object) => ({ choices: [{ index: 0, ...rest }] })
    const { engine } = await served('vllm', () =>
      eventResponse([
        choice({
          token_ids: [735, 706],
          finish_reason: 'length',
          logprobs: {
            tokens: ['token_id:735', 'token_id:706'],
            token_logprobs: [-0.5, -1],
            top_logprobs: [{ 'token_id:735': -0.5, 'token_id:656': -0.7 }, { 'token_id:706': -1 }],
          },
        }),
        'data: [DONE]',
      ]),
    )
    const chunks = await chunksOf(engine, requestOf({ output: { logprobs: 2 } }))
    expect(chunks[0]?.logprobs).toEqual([
      {
        tokenId: 735,
        logprob: -0.5,
        top: [
          { tokenId: 735, logprob: -0.5 },
          { tokenId: 656, logprob: -0.7 },
        ],
      },
      { tokenId: 706, logprob: -1, top: [{ tokenId: 706, logprob: -1 }] },
    ])
  })

  it("without max_tokens - the rest of the context is requested, not the server's default of 16", async () => {
    const { engine, bodies } = await served('vllm', recorded('vllm', 'cmpl_stream'))
    await chunksOf(engine, requestOf({ stop: {} }))
    expect(bodies()[0]).toMatchObject({ max_tokens: 4096 - 27 })
  })

  it("salt, adapter, rank, minimum - are sent in vLLM's fields", async () => {
    const { engine, bodies, server } = await served('vllm', recorded('vllm', 'cmpl_stream'))
    await chunksOf(
      engine,
      requestOf({
        routing: { cacheSalt: 't1', loraName: 'poet', dpRank: 3 },
        stop: { maxTokens: 9, minTokens: 5, stopTokenIds: [7] },
        resumedTokens: 2,
      }),
    )
    expect(bodies()[0]).toMatchObject({
      cache_salt: 't1',
      model: 'poet',
      min_tokens: 3,
      stop_token_ids: [7],
    })
    expect(server.seen.at(-1)?.headers['x-data-parallel-rank']).toBe('3')
  })

  it('a server that aborts - the request may migrate', async () => {
    const { engine } = await served('vllm', () =>
      eventResponse([{ choices: [{ token_ids: [7], finish_reason: 'abort' }] }, 'data: [DONE]']),
    )
    expect((await failureOf(chunksOf(engine, requestOf()))).row.migratable).toBe(true)
  })
})

describe('vLLM, separate prefill and decode', () => {
  const isParams = { do_remote_prefill: true, remote_block_ids: [[7, 8, 9, 10]] }

  it('prefill - generates one token, keeps its blocks, and omits fields that need more tokens', async () => {
    const { engine, bodies } = await served('vllm', recorded('vllm-nixl-pd', '10_cmpl_prefill'), {
      mode: 'prefill',
    })
    const stop = { maxTokens: 1, minTokens: 1, stop: ['x'] }
    const [chunk] = await chunksOf(engine, requestOf({ stop }))
    expect(chunk).toMatchObject({ finish: 'length' })
    expect(chunk?.prefillResult?.engineParams).toMatchObject({
      vllm_kv_transfer: { params: isParams },
    })
    const [body] = bodies()
    expect(body).toMatchObject({
      max_tokens: 1,
      stream: false,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    })
    expect(body).not.toHaveProperty('min_tokens')
    expect(body).not.toHaveProperty('stream_options')
  })

  const handedOver = (epochMs: number): GenerateRequest =>
    requestOf({
      prefillResult: { engineParams: { vllm_kv_transfer: { params: isParams, epochMs } } },
    })

  it('decode - sends the transfer parameters unchanged, and never twice', async () => {
    let asked = 0
    const { engine, bodies } = await served(
      'vllm',
      ({ socket }) => {
        asked += 1
        socket.destroy()
        return null
      },
      { mode: 'decode' },
    )
    const error = await failureOf(chunksOf(engine, handedOver(Date.now())))
    expect(error.row.migratable).toBe(true)
    expect(asked).toBe(1)
    expect(bodies()[0]).toMatchObject({ kv_transfer_params: isParams })
  })

  it('decode - a failure of the server is said to be one of a hand-over, and counted', async () => {
    const said = { error: { message: 'Internal server error', code: 500 } }
    const { engine } = await served('vllm', () => jsonResponse(500, said), { mode: 'decode' })
    const plain = await failureOf(chunksOf(engine, requestOf()))
    expect(plain.message).toBe('the engine failed (status 500, Internal server error)')
    const error = await failureOf(chunksOf(engine, handedOver(Date.now())))
    expect(error.message).toBe(
      'the engine failed (status 500, Internal server error) on a request with the KV of a prefill server: its log has the reason',
    )
    expect([error.code, error.row.migratable]).toEqual(['backend.engine_shutdown', true])
    const counted = engine.metrics().filter(({ name }) => name === 'upstream_hand_overs_total')
    expect(counted.map(({ value, labels }) => [labels?.['kv'], value])).toEqual([
      ['moved', 0],
      ['not_moved', 0],
      ['failed', 1],
    ])
  })

  it.each([
    [19_000, true],
    [21_000, false],
  ])('transfer parameters that are %i ms old - are used: %s', async (age, isUsed) => {
    const { engine, bodies } = await served('vllm', recorded('vllm', 'cmpl_stream'), {
      mode: 'decode',
    })
    const chunks = await chunksOf(engine, handedOver(Date.now() - age))
    expect('kv_transfer_params' in (bodies()[0] ?? {})).toBe(isUsed)
    if (!isUsed) expect(chunks.at(-1)?.engineData).toEqual({ kv_moved: false })
  })

  it.each([
    [4_718_592, true],
    [0, false],
  ])(
    '0 cached tokens reported and %i bytes transferred - KV was transferred: %s',
    async (bytes, moved) => {
      let fetched = 1000
      const server = await fakeServer((request) => {
        if (request.path === '/metrics') {
          const text = `vllm:num_requests_running{engine="0"} 0\nvllm:nixl_bytes_transferred_sum{engine="0"} ${fetched}\n`
          return `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`
        }
        const about = ABOUT['vllm']?.[`${request.method} ${request.path}`]
        if (about !== undefined) return responseOf('vllm', about)
        if (request.method === 'GET' || request.path.includes('generate')) return undefined
        fetched += bytes
        return responseOf('vllm', 'cmpl_stream')
      })
      const engine = await startedEngine({ url: server.url, mode: 'decode' })
      closeAfterwards({ close: () => engine.cleanup() }, server)
      const chunks = await chunksOf(engine, handedOver(Date.now()))
      expect(chunks.at(-1)?.engineData).toEqual({ kv_moved: moved })
      const counted = engine.metrics().filter(({ name }) => name === 'upstream_hand_overs_total')
      expect(counted.map(({ value, labels }) => [labels?.['kv'], value])).toEqual([
        ['moved', moved ? 1 : 0],
        ['not_moved', moved ? 0 : 1],
        ['failed', 0],
      ])
    },
  )

  it.each([
    ['no blocks', { do_remote_prefill: true, remote_block_ids: [] }],
    ['no lists of blocks', { do_remote_prefill: true, remote_block_ids: null }],
    ['blocks without ids', { do_remote_prefill: true, remote_block_ids: [null] }],
    ['blocks that are objects', { do_remote_prefill: true, remote_block_ids: [{}] }],
    ['lists in lists of blocks', { do_remote_prefill: true, remote_block_ids: [[[]]] }],
    ['a negative block', { do_remote_prefill: true, remote_block_ids: [[7, -1]] }],
    ['nothing at all', null],
    ['a number that JavaScript would change', { ...isParams, remote_port: 2 ** 60 }],
  ])('a prefill leg that returns %s - no hand-over', async (_name, params) => {
    expect(await handOverWith(JSON.stringify(params))).toBeUndefined()
  })

  it('a prefill leg whose parameters are nested too deep - no hand-over', async () => {
    const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`
    const params = `{"do_remote_prefill":true,"remote_block_ids":[1],"x":${deep}}`
    expect(await handOverWith(params)).toBeUndefined()
  })

  it('a prefill leg that returns blocks - a hand-over', async () => {
    expect(await handOverWith(JSON.stringify(isParams))).toBeDefined()
  })

  /** The hand-over of a prefill leg with these parameters, written as JSON. */
  async function handOverWith(params: string): Promise<unknown> {
    const choices = '[{"token_ids":[7],"finish_reason":"length"}]'
    const body = `{"choices":${choices},"kv_transfer_params":${params}}`
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const { engine } = await served('vllm', () => answer, { mode: 'prefill' })
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 1 } }))
    return chunks.at(-1)?.prefillResult
  }

  it.each([
    [
      'an adapter of the model',
      ['m', null],
      ['tuned', 'm'],
      { model: 'm', loraAdapters: ['tuned'] },
    ],
    ['parents that are empty', ['tuned', ''], ['other', ''], { model: 'tuned' }],
    ['parents that it does not list', ['tuned', 'base'], ['other', 'base'], { model: 'tuned' }],
  ] as const)('a list of models with %s', async (_name, first, second, expected) => {
    const data = [first, second].map(([id, parent]) => ({ id, parent, owned_by: 'vllm' }))
    const server = await fakeServer(({ method, path }) => {
      if (path === '/v1/models') return jsonResponse(200, { data })
      const about = ABOUT['vllm']?.[`${method} ${path}`]
      return about === undefined ? jsonResponse(404, {}) : responseOf('vllm', about)
    })
    const { engine, config } = await startedWithConfig({ url: server.url })
    closeAfterwards({ close: () => engine.cleanup() }, server)
    expect({ model: config.model, loraAdapters: config.loraAdapters }).toEqual({
      loraAdapters: undefined,
      ...expected,
    })
  })

  it('a server without KV events - is reported, because routing then only assumes cached blocks', async () => {
    const notes: string[] = []
    await served('vllm', () => undefined, { onNote: (note) => notes.push(note) })
    expect(notes).toEqual([expect.stringContaining('publishes no KV events')])
  })

  it('a client that disconnects between the legs - the decode server gets the request nevertheless', async () => {
    let isClosed = false
    const { engine, bodies } = await served(
      'vllm',
      ({ socket }) => {
        socket.on('close', () => {
          isClosed = true
        })
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n')
        return null
      },
      { mode: 'decode' },
    )
    const request = handedOver(Date.now())
    const context = new RequestContext(request.requestId)
    context.stop()
    const chunks = await chunksOf(engine, request, context)
    expect(chunks.map(({ finish }) => finish)).toEqual(['cancelled'])
    await until('the request was sent and aborted', () => bodies().length === 1 && isClosed)
  })
})
