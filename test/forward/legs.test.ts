/** Forward mode with separate prefill and decode: the bytes that each server gets, and failures. */
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../until.ts'
import { fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { FakeServer, SeenRequest } from '../upstream/transcripts.ts'
import { ask, post, startGateway } from './gateway-kit.ts'
import type { Gateway } from './gateway-kit.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

const DIVIDED = new Set([
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/messages',
  '/v1/responses',
])

type Answer = (request: SeenRequest) => string | null

const CHAT = '/v1/chat/completions'
const PARAMS = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [[4, 5]],
  remote_engine_id: 'e',
  remote_request_id: 'r',
  remote_host: '10.0.0.4',
  remote_port: 5600,
  tp_size: 1,
}
const PREFILLED = jsonResponse(200, { choices: [{}], kv_transfer_params: PARAMS })
const DECODED = jsonResponse(200, {
  choices: [{ message: { content: 'hi' } }],
  usage: { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 8 } },
})
const ABOUT: Readonly<Record<string, unknown>> = {
  '/health': {},
  '/v1/models': { data: [{ id: 'm', owned_by: 'vllm' }] },
  '/server_info': { disaggregation_bootstrap_port: 8998, dp_size: 2 },
}

async function server(
  kind: 'vllm' | 'sglang',
  answer: Answer,
  metrics = '',
  role = 'decode',
): Promise<FakeServer> {
  const fake = await fakeServer((request) => {
    if (request.path === '/metrics')
      return `HTTP/1.1 200 OK\r\nContent-Length: ${metrics.length}\r\n\r\n${metrics}`
    const said = ABOUT[request.path]
    const about =
      request.path === '/model_info' ? { model_path: 'm', disaggregation_mode: role } : said
    const isKnown = kind === 'sglang' || request.path !== '/model_info'
    if (request.method === 'GET')
      return about !== undefined && isKnown ? jsonResponse(200, about) : jsonResponse(404, {})
    return DIVIDED.has(request.path) ? answer(request) : jsonResponse(404, {})
  })
  open.push(fake)
  return fake
}

async function gatewayOf(
  kind: 'vllm' | 'sglang',
  [p, d]: readonly [FakeServer, FakeServer],
  flags: Readonly<Record<string, unknown>> = {},
): Promise<Gateway> {
  const upstream = `prefill=${kind}+${p.url},decode=${kind}+${d.url}`
  const gateway = await startGateway([], { upstream, ...flags })
  open.push(gateway)
  return gateway
}

const asked = ({ seen }: FakeServer): readonly SeenRequest[] =>
  seen.filter(({ method, path }) => method === 'POST' && path.startsWith('/v1/'))
const bodyOf = (request: SeenRequest | undefined): Record<string, unknown> =>
  JSON.parse(request?.body ?? 'null') as Record<string, unknown>

describe('vLLM', () => {
  it("both legs - prefill gets the request for one token, decode the client's bytes with the transfer parameters", async () => {
    const p = await server('vllm', () => PREFILLED)
    const d = await server('vllm', () => DECODED)
    const gateway = await gatewayOf('vllm', [p, d])
    const body =
      '{"model":"m", "seed":12345678901234567890,"stream":false,"max_completion_tokens":50,"min_tokens":3,"stream_options":{},"max_tokens":50,"messages":[{"role":"user","content":"hi"}],"kv_transfer_params":{"do_remote_prefill":true}}'
    const answer = await ask(gateway.port, CHAT, body)
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.body.toString())).toMatchObject({ choices: [{}] })
    const [first] = asked(p)
    const [second] = asked(d)
    expect(first?.body.startsWith('{"model":"m", "seed":12345678901234567890,"messages":')).toBe(
      true,
    )
    expect(bodyOf(first)).toMatchObject({
      stream: false,
      max_tokens: 1,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    })
    for (const name of ['min_tokens', 'stream_options', 'max_completion_tokens']) {
      expect(bodyOf(first)).not.toHaveProperty(name)
    }
    expect(second?.body).toBe(
      `${body.slice(0, body.indexOf(',"kv_transfer_params"'))},"kv_transfer_params":${JSON.stringify(PARAMS)}}`,
    )
    expect(first?.headers['x-request-id']).toBe(second?.headers['x-request-id'])
    const health = await (await fetch(`${gateway.url}/health`)).text()
    expect(health).toContain('KV was handed over in 1 of 1 decode legs')
  })

  it.each([
    [
      '/v1/messages',
      '"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"enabled","budget_tokens":1024}',
      '"stream":true,"max_tokens":2048',
      '"stream":false,"max_tokens":1',
    ],
    [
      '/v1/responses',
      '"input":"hi"',
      '"stream":true,"max_output_tokens":50,"store":true,"background":false,"stream_options":{}',
      '"stream":false,"max_output_tokens":1,"store":false',
    ],
  ])('%s - is divided too', async (path, prompt, ofDecode, ofPrefill) => {
    const p = await server('vllm', () => PREFILLED)
    const d = await server('vllm', () => DECODED)
    const gateway = await gatewayOf('vllm', [p, d])
    const body = `{"model":"m",${ofDecode},${prompt}}`
    expect((await ask(gateway.port, path, body)).status).toBe(200)
    const legs = [asked(p)[0], asked(d)[0]]
    expect(legs.map((leg) => leg?.path)).toEqual([path, path])
    expect(
      legs[0]?.body.startsWith(`{"model":"m",${prompt},${ofPrefill},"kv_transfer_params"`),
    ).toBe(true)
    expect(legs[1]?.body).toBe(
      `${body.slice(0, -1)},"kv_transfer_params":${JSON.stringify(PARAMS)}}`,
    )
  })

  it.each([
    ['two answers', '{"model":"m","n":2,"messages":[]}', CHAT],
    ['several prompts', '{"model":"m","prompt":["a","b"]}', '/v1/completions'],
    [
      'what another answer is behind',
      '{"model":"m","input":"a","previous_response_id":"r"}',
      '/v1/responses',
    ],
    ['work in the background', '{"model":"m","input":"a","background":true}', '/v1/responses'],
  ])('%s - is one request to the decode server', async (_name, body, path) => {
    const p = await server('vllm', () => PREFILLED)
    const d = await server('vllm', () => DECODED)
    const gateway = await gatewayOf('vllm', [p, d])
    expect((await ask(gateway.port, path, body)).status).toBe(200)
    expect([asked(p).length, asked(d)[0]?.body]).toEqual([0, body])
  })

  it('prefill returns no transfer parameters - the decode server gets the request unchanged', async () => {
    const p = await server('vllm', () =>
      jsonResponse(200, { choices: [{}], kv_transfer_params: null }),
    )
    const d = await server('vllm', () => DECODED)
    const gateway = await gatewayOf('vllm', [p, d])
    const body = '{"model":"m","prompt":"a"}'
    expect((await ask(gateway.port, '/v1/completions', body)).status).toBe(200)
    expect(asked(d)[0]?.body).toBe(body)
  })

  it('the prefill server refuses - the client gets its refusal, and decode is not asked', async () => {
    const refusal = { error: { message: 'top_p must be at most 1', code: 400 } }
    const p = await server('vllm', () => jsonResponse(400, refusal))
    const d = await server('vllm', () => DECODED)
    const gateway = await gatewayOf('vllm', [p, d])
    const { status, body } = await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')
    expect([status, JSON.parse(body.toString())]).toEqual([400, refusal])
    expect(asked(d)).toEqual([])
  })

  it('decode closes the connection - a new prefill leg, never the same hand-over twice', async () => {
    let count = 0
    const p = await server('vllm', () =>
      jsonResponse(200, { kv_transfer_params: { ...PARAMS, remote_request_id: `r${++count}` } }),
    )
    let failures = 0
    const d = await server('vllm', ({ socket }) => {
      if (failures++ > 0) return DECODED
      socket.destroy()
      return null
    })
    const gateway = await gatewayOf('vllm', [p, d])
    expect((await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')).status).toBe(200)
    const used = asked(d).map((request) => bodyOf(request)['kv_transfer_params'])
    expect(used).toMatchObject([{ remote_request_id: 'r1' }, { remote_request_id: 'r2' }])
    expect(asked(p)).toHaveLength(2)
  })

  describe.each([
    ['fails', 500, jsonResponse(500, { error: { message: 'Internal server error', code: 500 } })],
    // The client's request was accepted by prefill.
    ['refuses', 400, jsonResponse(400, { error: { message: 'kv params bad', code: 400 } })],
  ])('the only decode server %s at a hand-over', (_name, answered, failed) => {
    it('once - it gets the request again, with KV of a new prefill leg', async () => {
      let count = 0
      const p = await server('vllm', () =>
        jsonResponse(200, { kv_transfer_params: { ...PARAMS, remote_request_id: `r${++count}` } }),
      )
      let failures = 0
      const d = await server('vllm', () => (failures++ > 0 ? DECODED : failed))
      const gateway = await gatewayOf('vllm', [p, d], { enforceDisagg: true })
      expect((await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')).status).toBe(200)
      const used = asked(d).map((request) => bodyOf(request)['kv_transfer_params'])
      expect(used).toMatchObject([{ remote_request_id: 'r1' }, { remote_request_id: 'r2' }])
      expect(asked(p)).toHaveLength(2)
    })

    it('each time - the client gets its answer after the second', async () => {
      const p = await server('vllm', () => PREFILLED)
      const d = await server('vllm', () => failed)
      const gateway = await gatewayOf('vllm', [p, d], { enforceDisagg: true })
      const { status, body } = await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')
      expect([status, body.toString()]).toEqual([answered, failed.slice(failed.indexOf('{'))])
      expect([asked(p).length, asked(d).length]).toEqual([2, 2])
    })
  })

  it('a client that disconnects between the legs - decode still gets the request, which is then aborted', async () => {
    let answer: (() => void) | null = null
    const p = await server('vllm', ({ socket }) => {
      answer = () => socket.write(PREFILLED)
      return null
    })
    let isLeft = false
    const d = await server('vllm', ({ socket }) => {
      socket.once('close', () => {
        isLeft = true
      })
      setTimeout(
        () => socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n'),
        20,
      )
      return null
    })
    const gateway = await gatewayOf('vllm', [p, d])
    const client = post(gateway.port, CHAT, '{"model":"m","stream":true,"messages":[]}')
    await until('prefill is asked', () => answer !== null)
    // The answer and the disconnect arrive at about the same time.
    answer!()
    await until('decode is asked', () => asked(d).length === 1)
    client.destroy()
    await until('the decode request is aborted', () => isLeft)
    expect(bodyOf(asked(d)[0])).toHaveProperty('kv_transfer_params.remote_request_id')
  })

  it('the chosen data-parallel rank - is sent in a header', async () => {
    const metrics = ['0', '1', '2']
      .map(
        (engine) =>
          `vllm:num_requests_running{engine="${engine}",model_name="m"} ${engine === '1' ? 0 : 5}\n`,
      )
      .join('')
    const only = await server('vllm', () => DECODED, metrics)
    const gateway = await startGateway([], { upstream: `vllm+${only.url}` })
    open.push(gateway)
    for (let i = 0; i < 3; i++) {
      await ask(gateway.port, CHAT, `{"model":"m","messages":[{"role":"user","content":"${i}"}]}`)
    }
    const ranks = asked(only).map(({ headers }) => headers['x-data-parallel-rank'])
    expect(ranks).toHaveLength(3)
    for (const rank of ranks) expect(['0', '1', '2']).toContain(rank)
  })
})

describe('SGLang', () => {
  it('both legs - run at once with the same bootstrap room and separate request ids', async () => {
    const p = await server('sglang', () => jsonResponse(200, { choices: [{}] }), '', 'prefill')
    const d = await server('sglang', () => DECODED)
    const gateway = await gatewayOf('sglang', [p, d])
    const body = '{"model":"m","max_tokens":9,"rid":"a","bootstrap_room":1,"messages":[]}'
    expect((await ask(gateway.port, CHAT, body)).status).toBe(200)
    await until('prefill is asked', () => asked(p).length === 1)
    const [first, second] = [asked(p)[0], asked(d)[0]]
    const room = /"bootstrap_room":(\d+)\}$/.exec(second?.body ?? '')?.[1]
    expect(room).toBeDefined()
    expect(first?.body).toContain(`"bootstrap_room":${room}}`)
    expect(bodyOf(first)).toMatchObject({
      max_tokens: 1,
      bootstrap_host: '127.0.0.1',
      bootstrap_port: 8998,
    })
    expect(bodyOf(second)).toMatchObject({
      max_tokens: 9,
      bootstrap_host: '127.0.0.1',
      bootstrap_port: 8998,
    })
    const ids = [first, second].map((request) => String(bodyOf(request)['rid']))
    for (const id of ids) expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(ids[0]).not.toBe(ids[1])
  })

  it.each([
    [true, 503, 1],
    // A decode server refuses requests without a prefill server.
    [false, 503, 1],
  ])(
    'prefill fails, enforced %s - the decode request is aborted and not repeated alone',
    async (enforceDisagg, status, calls) => {
      const failure = jsonResponse(500, { error: { message: 'x' } })
      const p = await server('sglang', () => failure, '', 'prefill')
      let isLeft = false
      const d = await server('sglang', ({ body, socket }) => {
        if (!body.includes('bootstrap_room')) return DECODED
        socket.once('close', () => {
          isLeft = true
        })
        return null
      })
      const gateway = await gatewayOf('sglang', [p, d], { enforceDisagg })
      const answer = await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')
      await until('the decode request is aborted', () => isLeft)
      expect([answer.status, asked(d).length]).toEqual([status, calls])
    },
  )

  it.each([400, 500])(
    'the only decode server answers %i - both legs run again in a new room',
    async (status) => {
      let count = 0
      const p = await server('sglang', () => DECODED, '', 'prefill')
      const d = await server('sglang', () => (count++ > 0 ? DECODED : jsonResponse(status, {})))
      const gateway = await gatewayOf('sglang', [p, d], { enforceDisagg: true })
      expect((await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')).status).toBe(200)
      const rooms = asked(d).map(({ body }) => /"bootstrap_room":(\d+)/.exec(body)?.[1])
      expect([rooms.length, new Set(rooms).size]).toEqual([2, 2])
    },
  )

  it('prefill hangs after decode has answered - its request is aborted after the grace time', async () => {
    let isLeft = false
    const hangs = ({ socket }: SeenRequest): null => {
      socket.once('close', () => {
        isLeft = true
      })
      return null
    }
    const p = await server('sglang', hangs, '', 'prefill')
    const d = await server('sglang', () => DECODED)
    const shortGrace = { routerConfig: 'test/fixtures/short-grace.json' }
    const gateway = await gatewayOf('sglang', [p, d], shortGrace)
    expect((await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')).status).toBe(200)
    await until('the prefill request is aborted', () => isLeft)
    expect(asked(p)).toHaveLength(1)
  })

  it.each([
    ['two answers', CHAT, '{"model":"m","n":2,"messages":[]}', 'one request for each prompt'],
    [
      'a route without a meeting point',
      '/v1/messages',
      '{"model":"m","max_tokens":5,"messages":[]}',
      'use /v1/chat/completions',
    ],
  ])('%s - is refused with a remedy, and no server is asked', async (_name, path, body, said) => {
    const p = await server('sglang', () => DECODED, '', 'prefill')
    const d = await server('sglang', () => DECODED)
    const gateway = await gatewayOf('sglang', [p, d])
    const answer = await ask(gateway.port, path, body)
    expect([answer.status, asked(p).length, asked(d).length]).toEqual([400, 0, 0])
    expect(answer.body.toString()).toContain(said)
  })

  it('/v1/responses - both legs use the same room', async () => {
    const p = await server('sglang', () => DECODED, '', 'prefill')
    const d = await server('sglang', () => DECODED)
    const gateway = await gatewayOf('sglang', [p, d])
    const body = '{"model":"m","input":"hi","max_output_tokens":20}'
    expect((await ask(gateway.port, '/v1/responses', body)).status).toBe(200)
    await until('prefill is asked', () => asked(p).length === 1)
    const rooms = [asked(p)[0], asked(d)[0]].map(
      (leg) => /"bootstrap_room":(\d+)\}$/.exec(leg?.body ?? '')?.[1],
    )
    expect(rooms[0]).toBeDefined()
    expect(rooms[0]).toBe(rooms[1])
  })
})
