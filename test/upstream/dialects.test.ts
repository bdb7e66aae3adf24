/** The adapters to vLLM, SGLang and OpenAI servers, against what real ones said. */
import { afterEach, describe, expect, it } from 'vitest'
import type { BatonError } from '../../src/base/index.ts'
import { RequestContext, StreamValidator } from '../../src/engine/index.ts'
import { loadModelText } from '../../src/host/index.ts'
import type { Chunk, GenerateRequest } from '../../src/request/index.ts'
import type { UpstreamEngine, UpstreamEngineOptions } from '../../src/upstream/index.ts'
import { until } from '../until.ts'
import { chunksOf, requestOf, startedEngine, tokensOf } from './engine-kit.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

const ABOUT: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  vllm: {
    'GET /health': 'get_health',
    'GET /ping': 'get_ping',
    'GET /version': 'get_version',
    'GET /v1/models': 'get_models',
    'GET /metrics': 'get_metrics_idle',
  },
  sglang: {
    'GET /health': 'get_health',
    'GET /model_info': 'get_model_info',
    'GET /server_info': 'get_server_info',
    'GET /v1/models': 'get_models',
    'GET /v1/loads': 'get_loads',
  },
  'mlx-lm': { 'GET /health': 'get_health', 'GET /v1/models': 'get_models' },
  'transformers-serve': { 'GET /health': 'get_health', 'GET /v1/models': 'get_models' },
}

interface Served {
  readonly server: FakeServer
  readonly engine: UpstreamEngine
  /** Bodies of the requests for tokens. */
  readonly bodies: () => Record<string, unknown>[]
}

/** A server that says of itself what the recorded one did. */
async function served(
  kind: string,
  answer: (request: SeenRequest) => Buffer | string | null | undefined,
  options: Partial<UpstreamEngineOptions> = {},
): Promise<Served> {
  const server = await fakeServer((request) => {
    const about = ABOUT[kind]?.[`${request.method} ${request.path}`]
    if (about !== undefined) return responseOf(kind, about)
    if (request.path === '/inference/v1/generate' && request.body.includes('"token_ids":[]')) {
      return jsonResponse(options.kind === 'openai' ? 404 : 403, { error: { message: 'off' } })
    }
    return request.method === 'GET' ? undefined : answer(request)
  })
  const engine = await startedEngine({ url: server.url, ...options })
  open.push({ close: () => engine.cleanup() }, server)
  return {
    server,
    engine,
    bodies: () =>
      server.seen
        .filter(
          ({ path, body }) => /completions|generate/.test(path) && !body.includes('"token_ids":[]'),
        )
        .map(({ body }) => JSON.parse(body) as Record<string, unknown>),
  }
}

function validated(request: GenerateRequest, chunks: readonly Chunk[]): void {
  const validator = new StreamValidator({ request })
  for (const chunk of chunks) validator.chunk(chunk)
}

async function failureOf(work: Promise<unknown>): Promise<BatonError> {
  return await work.then(
    () => {
      throw new Error('it did not fail')
    },
    (error: BatonError) => error,
  )
}

const recorded = (kind: string, name: string) => (): Buffer => responseOf(kind, name)
const MODEL = { modelPath: 'models/storyteller', loadText: loadModelText }

describe('kinds', () => {
  it.each([
    ['vllm', 'vllm', '0.32.0'],
    ['sglang', 'sglang', null],
    ['mlx-lm', 'openai', null],
    ['transformers-serve', 'openai', null],
  ])('%s - is found to be %s', async (engine, kind, version) => {
    const { engine: found } = await served(engine, () => undefined)
    expect(found.found).toMatchObject({ kind, version })
  })

  it('a prefill server of SGLang - says its role', async () => {
    const { engine } = await served('sglang', () => undefined)
    expect(engine.found?.mode).toBe('agg')
  })
})

describe('vLLM', () => {
  it('a recorded stream - its tokens, its cached tokens, its end', async () => {
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

  it('a recorded stream of the other route - the same tokens, with log-probabilities by id', async () => {
    const { engine } = await served('vllm', recorded('vllm', 'generate_stream'))
    const request = requestOf({ output: { logprobs: 1 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(tokensOf(chunks)).toEqual([735, 706, 20, 265])
    expect(chunks[0]?.logprobs?.[0]).toMatchObject({ tokenId: 735, top: [{ tokenId: 735 }] })
  })

  it('the other route where it is on - is asked, but not for structured output', async () => {
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
    open.push({ close: () => engine.cleanup() }, server)
    await chunksOf(engine, requestOf())
    const guided = { kind: 'choice' as const, choices: ['a'] }
    await chunksOf(engine, requestOf({ sampling: { guided } }))
    const paths = server.seen.map(({ path }) => path).filter((path) => /compl|generate/.test(path))
    expect(paths).toEqual(['/inference/v1/generate', '/inference/v1/generate', '/v1/completions'])
  })

  it('names of log-probabilities on the OpenAI route - are ids', async () => {
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

  it('without a maximum - the rest of the context, not the 16 tokens of the server', async () => {
    const { engine, bodies } = await served('vllm', recorded('vllm', 'cmpl_stream'))
    await chunksOf(engine, requestOf({ stop: {} }))
    expect(bodies()[0]).toMatchObject({ max_tokens: 4096 - 27 })
  })

  it('salt, adapter, rank, minimum - are said in its words', async () => {
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

  it('a server that gives up - the request may go on elsewhere', async () => {
    const { engine } = await served('vllm', () =>
      eventResponse([{ choices: [{ token_ids: [7], finish_reason: 'abort' }] }, 'data: [DONE]']),
    )
    expect((await failureOf(chunksOf(engine, requestOf()))).row.migratable).toBe(true)
  })
})

describe('vLLM, prefill and decode apart', () => {
  const isParams = { do_remote_prefill: true, remote_block_ids: [[7, 8, 9, 10]] }

  it('prefill - one whole token, asked to keep its blocks, without what a leg of one token cannot have', async () => {
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

  it('decode - the parameters as they came, and never a second time', async () => {
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

  it.each([
    [19_000, true],
    [21_000, false],
  ])('parameters %i ms old - are used: %s', async (age, isUsed) => {
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
    'a server that tells 0 cached tokens, with %i bytes more on its counter - KV moved: %s',
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
      open.push({ close: () => engine.cleanup() }, server)
      const chunks = await chunksOf(engine, handedOver(Date.now()))
      expect(chunks.at(-1)?.engineData).toEqual({ kv_moved: moved })
      const counted = engine.metrics().filter(({ name }) => name === 'upstream_hand_overs_total')
      expect(counted.map(({ value, labels }) => [labels?.['kv'], value])).toEqual([
        ['moved', moved ? 1 : 0],
        ['not_moved', moved ? 0 : 1],
      ])
    },
  )

  it.each([
    ['no blocks', { do_remote_prefill: true, remote_block_ids: [] }],
    ['no lists of blocks', { do_remote_prefill: true, remote_block_ids: null }],
    ['nothing at all', null],
    ['a number that JavaScript would change', { ...isParams, remote_port: 2 ** 60 }],
  ])('a prefill leg that leaves %s - hands nothing over', async (_name, params) => {
    const { engine } = await served(
      'vllm',
      () =>
        jsonResponse(200, {
          choices: [{ token_ids: [7], finish_reason: 'length' }],
          kv_transfer_params: params,
        }),
      { mode: 'prefill' },
    )
    const [chunk] = await chunksOf(engine, requestOf({ stop: { maxTokens: 1 } }))
    expect(chunk?.prefillResult).toBeUndefined()
  })

  it('a server without KV events - is said, as routing then only believes', async () => {
    const notes: string[] = []
    await served('vllm', () => undefined, { onNote: (note) => notes.push(note) })
    expect(notes).toEqual([expect.stringContaining('publishes no KV events')])
  })

  it('a client that leaves between the legs - the decode server hears of the request all the same', async () => {
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
    await until('it was told, and left', () => bodies().length === 1 && isClosed)
  })
})

describe('SGLang', () => {
  it('a recorded stream that repeats itself - each token once', async () => {
    const { engine, bodies } = await served('sglang', recorded('sglang', 'generate_stream'))
    const request = requestOf({ stop: { maxTokens: 3 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(tokensOf(chunks)).toEqual([735, 706, 20])
    expect(chunks.at(-1)).toMatchObject({ finish: 'length', usage: { cachedTokens: 16 } })
    expect(bodies()[0]).toMatchObject({
      stream: true,
      sampling_params: { max_new_tokens: 3, top_k: -1 },
    })
    expect(bodies()[0]?.['rid']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('a recorded answer with log-probabilities - one per token', async () => {
    const { engine } = await served('sglang', recorded('sglang', 'generate_logprob'))
    const request = requestOf({ output: { logprobs: 1 }, stop: { maxTokens: 2 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(chunks[0]?.logprobs?.map(({ tokenId }) => tokenId)).toEqual([735, 706])
  })

  it('events that tell only what is new - are read as well', async () => {
    const event = (ids: number[], count: number, finish: object | null) => ({
      output_ids: ids,
      meta_info: { prompt_tokens: 27, completion_tokens: count, finish_reason: finish },
    })
    const { engine } = await served('sglang', () =>
      eventResponse([
        event([1], 1, null),
        event([3, 4], 3, null),
        event([5], 4, { type: 'length', length: 4 }),
        'data: [DONE]',
      ]),
    )
    expect(tokensOf(await chunksOf(engine, requestOf()))).toEqual([1, 3, 4, 5])
  })

  it('a meeting point of more than 53 bits - keeps every digit', async () => {
    const { engine, server } = await served('sglang', recorded('sglang', 'generate_stream'))
    const room = '9223372036854775807'
    await chunksOf(engine, requestOf({ bootstrap: { host: 'p', port: 8998, room } }))
    expect(server.seen.at(-1)?.body).toContain(`"bootstrap_room":${room}`)
    expect(server.seen.at(-1)?.body).toContain('"bootstrap_host":"p","bootstrap_port":8998')
  })

  it.each(['prefill', 'decode'] as const)(
    'a %s server alone - is not asked, as it refuses what names no meeting point',
    async (mode) => {
      const recording = recorded('sglang', 'generate_stream')
      const { engine, bodies } = await served('sglang', recording, { mode })
      const error = await failureOf(chunksOf(engine, requestOf()))
      expect([error.code, bodies()]).toEqual(['backend.worker_unavailable', []])
    },
  )

  it('the end token that it names - is not part of the output', async () => {
    const { engine } = await served('sglang', () =>
      eventResponse([
        {
          output_ids: [7, 2],
          meta_info: {
            prompt_tokens: 27,
            completion_tokens: 2,
            finish_reason: { type: 'stop', matched: 2 },
          },
        },
      ]),
    )
    const chunks = await chunksOf(engine, requestOf())
    expect(tokensOf(chunks)).toEqual([7])
    expect(chunks.at(-1)).toMatchObject({ finish: 'eos', stopReason: 2 })
  })

  it('a recorded refusal of a long prompt - the limit without the paths', async () => {
    const { engine } = await served('sglang', recorded('sglang', 'err_context_ids'))
    const error = await failureOf(chunksOf(engine, requestOf()))
    expect(error.code).toBe('request.context_length_exceeded')
    expect(error.message).toContain('4096')
  })
})

describe('OpenAI servers without ids', () => {
  const textOf = (chunks: readonly Chunk[]): string => chunks.map(({ text = '' }) => text).join('')
  const asOpenAi = { ...MODEL, kind: 'openai' as const, servedModelName: 'storyteller' }

  it.each([
    ['mlx-lm', 'chat_stream', 4],
    ['mlx-lm', 'chat_stream_usage', 4],
    ['transformers-serve', 'chat_stream', 4],
    ['transformers-serve', 'chat_stream_usage', 3],
  ])('%s, %s - its text, whatever stands around it', async (kind, name) => {
    const { engine, bodies } = await served(kind, recorded(kind, name), asOpenAi)
    const request = requestOf()
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(textOf(chunks)).toMatch(/^Long ago,/)
    expect(chunks.at(-1)).toMatchObject({ finish: 'length' })
    // The prompt is the text that the tokens stand for, control tokens too.
    expect(bodies()[0]?.['prompt']).toMatch(/^<\|im_start\|>user\nTell me a story/)
  })

  it.each([
    ['mlx-lm', 'err_type'],
    ['mlx-lm', 'err_unknown_model'],
    ['transformers-serve', 'err_badjson'],
    ['transformers-serve', 'err_unknown_model'],
  ])('%s, %s - a refusal with a code of ours', async (kind, name) => {
    const { engine } = await served(kind, recorded(kind, name), asOpenAi)
    const error = await failureOf(chunksOf(engine, requestOf()))
    expect(error.row.httpStatus).toBe(400)
  })

  it.each([
    ['min_tokens', { stop: { minTokens: 1 } }],
    ['stop_token_ids', { stop: { stopTokenIds: [7] } }],
    ['ignore_eos', { stop: { ignoreEos: true } }],
    ['top_k', { sampling: { topK: 5 } }],
  ])('%s - is refused by name, as the server would ignore it', async (param, parts) => {
    const { engine, bodies } = await served('mlx-lm', recorded('mlx-lm', 'chat_stream'), asOpenAi)
    const error = await failureOf(chunksOf(engine, requestOf(parts)))
    expect(error.data['param']).toBe(param)
    expect(bodies()).toEqual([])
  })

  it('usage of the server - counts, not the pieces', async () => {
    const { engine } = await served(
      'mlx-lm',
      () =>
        eventResponse([
          { choices: [{ text: 'one two three' }] },
          { choices: [{ text: '', finish_reason: 'stop' }] },
          { choices: [], usage: { prompt_tokens: 31, completion_tokens: 3 } },
        ]),
      asOpenAi,
    )
    const chunks = await chunksOf(engine, requestOf())
    expect(chunks.at(-1)).toMatchObject({
      finish: 'stop',
      usage: { promptTokens: 31, completionTokens: 3, totalTokens: 34 },
    })
  })
})
