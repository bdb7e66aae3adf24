/** `baton serve --upstream` as a whole: what reaches an engine, what reaches a client, and failures of engines. */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { BatonsInTurn } from '../in-turn.ts'
import { runBaton, startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

type Answer = (request: SeenRequest) => Buffer | string | null | undefined

async function fake(about: Readonly<Record<string, Buffer>>, answer: Answer): Promise<FakeServer> {
  const server = await fakeServer((request) => {
    const said = about[`${request.method} ${request.path}`]
    if (said !== undefined) return said
    return request.method === 'GET' ? undefined : answer(request)
  })
  open.push(() => server.close())
  return server
}

const VLLM = {
  'GET /health': responseOf('vllm', 'get_health'),
  'GET /version': responseOf('vllm', 'get_version'),
  'GET /v1/models': responseOf('vllm', 'get_models'),
  'GET /metrics': responseOf('vllm', 'get_metrics_idle'),
}
const vllm = (answer: Answer): Promise<FakeServer> =>
  fake(VLLM, (request) => (request.path === '/v1/completions' ? answer(request) : undefined))

/** An SGLang server with a role. */
function sglang(mode: 'prefill' | 'decode', answer: Answer): Promise<FakeServer> {
  const info = { model_path: 'm', served_model_name: 'storyteller', disaggregation_mode: mode }
  const server = {
    page_size: 16,
    vocab_size: 2048,
    disaggregation_bootstrap_port: 8998,
    context_length: 4096,
  }
  return fake(
    {
      'GET /health': responseOf('sglang', 'get_health'),
      'GET /model_info': Buffer.from(jsonResponse(200, info)),
      'GET /server_info': Buffer.from(jsonResponse(200, server)),
      'GET /v1/loads': responseOf('sglang', 'get_loads'),
    },
    (request) => (request.path === '/generate' ? answer(request) : undefined),
  )
}

async function gateway(upstream: string, ...args: string[]): Promise<RunningServer> {
  const server = await startServer([
    '--upstream',
    upstream,
    '--model',
    'models/storyteller',
    ...args,
  ])
  open.push(() => server.stop())
  return server
}

async function chat(
  server: RunningServer,
  fields: object = {},
): Promise<{ status: number; text: string }> {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'storyteller',
      messages: [{ role: 'user', content: 'Hello' }],
      temperature: 0,
      max_tokens: 3,
      ...fields,
    }),
  })
  return { status: response.status, text: await response.text() }
}

const TRANSFER =
  /kv_transfer_params|ec_transfer_params|bootstrap_|disaggregated_params|do_remote|vllm_xargs|extra_args/

describe('baton serve --upstream', () => {
  it('KV transfer fields of a client - never reach an engine, wherever they are in the body', async () => {
    const engine = await vllm(() => responseOf('vllm', 'cmpl_stream'))
    const server = await gateway(engine.url)
    const params = { do_remote_prefill: true, remote_host: '10.0.0.1' }
    const fields = [
      { kv_transfer_params: params },
      { ec_transfer_params: params },
      { bootstrap_host: 'x', bootstrap_port: 1, bootstrap_room: 2 },
      { disaggregated_params: params },
      { vllm_xargs: { kv_transfer_params: params } },
      { extra_args: { kv_transfer_params: params } },
      { nvext: { kv_transfer_params: params } },
    ]
    for (const field of fields) await chat(server, field)
    const bodies = engine.seen
      .filter(({ path }) => path === '/v1/completions')
      .map(({ body }) => body)
    for (const body of bodies) expect(body).not.toMatch(TRANSFER)
    expect((await chat(server)).status).toBe(200)
  })

  it('an error with paths and hosts - reaches the client without them', async () => {
    const inside = 'File "/srv/models/run.py", line 3: connect 10.0.0.7:5600 failed'
    const engine = await vllm(() => jsonResponse(400, { error: { message: inside, code: 400 } }))
    const server = await gateway(engine.url)
    const { status, text } = await chat(server)
    expect(status).toBe(400)
    expect(text).not.toMatch(/srv|run\.py|10\.0\.0\.7|5600|127\.0\.0\.1/)
  })

  it('two engines, one fails during an answer - the other continues the answer', async () => {
    let calls = 0
    const chunk = (token: number, finish: string | null): object => ({
      choices: [{ index: 0, token_ids: [token], finish_reason: finish }],
    })
    const answer: Answer = ({ body }) => {
      calls += 1
      const { prompt } = JSON.parse(body) as { prompt: number[] }
      // The engine that is asked first sends one token and closes the connection.
      if (calls === 1) return eventResponse([chunk(735, null)])
      expect(prompt.at(-1)).toBe(735)
      return eventResponse([chunk(706, null), chunk(20, 'length'), 'data: [DONE]'])
    }
    const [a, b] = [await vllm(answer), await vllm(answer)]
    const server = await gateway(`${a.url},${b.url}`)
    const { text } = await chat(server)
    expect(
      (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]?.message
        .content,
    ).toBe('Long ago,')
    expect(calls).toBe(2)
  })

  it('the address of an engine - is shown in /health, `top` and the banner', async () => {
    const engine = await vllm(() => responseOf('vllm', 'cmpl_stream'))
    const server = await gateway(engine.url)
    const health = await (await fetch(`${server.url}/health`)).text()
    expect(health).toContain(`"upstream":"${engine.url}"`)
    expect(server.printed()).toContain(engine.url)
    const top = await runBaton(['top', '--once', '--url', server.url])
    expect(top.printed).toContain(engine.url.slice('http://'.length))
  })

  it('engines without KV events - a repeated prompt goes to the engine that has seen it', async () => {
    const [a, b] = [
      await vllm(() => responseOf('vllm', 'cmpl_stream')),
      await vllm(() => responseOf('vllm', 'cmpl_stream')),
    ]
    // Costs of time would depend on how fast these servers happened to answer.
    const server = await gateway(`${a.url},${b.url}`, '--router-cost', 'blocks')
    const asked = ({ seen }: FakeServer): number =>
      seen.filter(({ path }) => path === '/v1/completions').length
    for (const word of ['bear', 'wolf', 'hare']) {
      const before = [asked(a), asked(b)]
      const content = `${word} and fox. `.repeat(60)
      for (let i = 0; i < 4; i++) await chat(server, { messages: [{ role: 'user', content }] })
      const counts = [asked(a) - (before[0] ?? 0), asked(b) - (before[1] ?? 0)]
      expect(counts.toSorted((x, y) => x - y)).toEqual([0, 4])
    }
  })

  it('trace headers - reach the engine, other client headers do not', async () => {
    const engine = await vllm(() => responseOf('vllm', 'cmpl_stream'))
    const server = await gateway(engine.url)
    const traceparent = `00-${'a1'.repeat(16)}-${'b2'.repeat(8)}-01`
    await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', traceparent, 'x-mine': 'secret' },
      body: JSON.stringify({ model: 'storyteller', prompt: 'Hello', max_tokens: 3 }),
    })
    const asked = engine.seen.find(({ path }) => path === '/v1/completions')
    expect([asked?.headers['traceparent'], asked?.headers['x-mine']]).toEqual([
      traceparent,
      undefined,
    ])
  })

  it('two data-parallel ranks of one server - are addressed by number, and a repeated prompt goes to the same rank', async () => {
    const metrics = [0, 1].map(
      (rank) =>
        `vllm:num_requests_running{engine="${rank}"} 0\nvllm:num_requests_waiting{engine="${rank}"} 0\n`,
    )
    const body = metrics.join('')
    const head = `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`
    const engine = await fake({ ...VLLM, 'GET /metrics': Buffer.from(head + body) }, ({ path }) =>
      path === '/v1/completions' ? responseOf('vllm', 'cmpl_stream') : undefined,
    )
    const server = await gateway(engine.url, '--router-cost', 'blocks')
    const ranksOf = async (word: string): Promise<Set<string | undefined>> => {
      const before = engine.seen.length
      const content = `${word} and fox. `.repeat(60)
      for (let i = 0; i < 3; i++) await chat(server, { messages: [{ role: 'user', content }] })
      const asked = engine.seen.slice(before).filter(({ path }) => path === '/v1/completions')
      expect(asked).toHaveLength(3)
      return new Set(asked.map(({ headers }) => headers['x-data-parallel-rank']))
    }
    const all = new Set<string | undefined>()
    for (let word = 0; word < 20 && all.size < 2; word++) {
      const ranks = await ranksOf(`bear ${word}`)
      expect(ranks.size).toBe(1)
      for (const rank of ranks) all.add(rank)
    }
    expect(all).toEqual(new Set(['0', '1']))
  })

  it('an engine that starts later - is used once it is reachable', async () => {
    const gone = await vllm(() => responseOf('vllm', 'cmpl_stream'))
    const { url, port } = gone
    await gone.close()
    const server = await gateway(url)
    expect((await chat(server)).status).toBe(503)
    await expect.poll(server.printed).toContain('does not answer')
    const back = await fakeServer(
      ({ method, path }) =>
        (VLLM as Readonly<Record<string, Buffer>>)[`${method} ${path}`] ??
        (path === '/v1/completions' ? responseOf('vllm', 'cmpl_stream') : undefined),
      port,
    )
    open.push(() => back.close())
    await until('it is served', async () => (await chat(server)).status === 200)
  })

  it('two SGLang servers - their roles are detected, and both legs use the same bootstrap room', async () => {
    const event = (ids: number[], finish: object): string =>
      eventResponse([
        {
          output_ids: ids,
          meta_info: { prompt_tokens: 12, completion_tokens: ids.length, finish_reason: finish },
        },
      ])
    const p = await sglang('prefill', () => event([735], { type: 'length', length: 1 }))
    const d = await sglang('decode', () => event([735, 706, 20], { type: 'length', length: 3 }))
    const server = await gateway(`${p.url},${d.url}`, '--enforce-disagg')
    const { text, status } = await chat(server)
    expect([status, text]).toEqual([200, expect.stringContaining('Long ago,')])
    const legs = [p, d].map(({ seen }) => seen.find(({ path }) => path === '/generate')?.body ?? '')
    const rooms = legs.map((leg) => /"bootstrap_room":(\d+)/.exec(leg)?.[1])
    expect(rooms[0]).toBeDefined()
    expect(rooms[1]).toBe(rooms[0])
    for (const leg of legs) {
      expect(leg).toContain('"bootstrap_host":"127.0.0.1","bootstrap_port":8998')
    }
    const rids = legs.map((leg) => /"rid":"([^"]+)"/.exec(leg)?.[1])
    expect(rids[0]).not.toBe(rids[1])
  })

  describe('the only decode server fails at a hand-over', () => {
    const failed = jsonResponse(500, { error: { message: 'Internal server error', code: 500 } })
    const refused = jsonResponse(400, { error: { message: 'kv params bad', code: 400 } })
    const toTransfer = { do_remote_prefill: true, remote_block_ids: [[1, 2]] }
    const used = ({ seen }: FakeServer): readonly string[] =>
      seen.flatMap(({ body }) => /"remote_request_id":"(\w+)"/.exec(body)?.[1] ?? [])

    /** A prefill server that names each of its hand-overs, and a decode server that fails at the first ones. */
    async function pair(
      failures: number,
      failure = failed,
    ): Promise<readonly [FakeServer, FakeServer]> {
      let legs = 0
      let left = failures
      const p = await vllm(() => {
        const params = { ...toTransfer, remote_request_id: `r${++legs}` }
        const choices = [{ token_ids: [735], finish_reason: 'length' }]
        return jsonResponse(200, { choices, kv_transfer_params: params })
      })
      const d = await vllm(() => (left-- > 0 ? failure : responseOf('vllm', 'cmpl_stream')))
      return [p, d]
    }

    it('once - it gets the request again, with KV of a new prefill leg, and the log says why', async () => {
      const [p, d] = await pair(1)
      const server = await gateway(`prefill=${p.url},decode=${d.url}`, '--enforce-disagg')
      expect((await chat(server)).status).toBe(200)
      expect(used(d)).toEqual(['r1', 'r2'])
      const warnings = server.printed().match(/.*"kind":"migrated".*/g)
      expect(warnings).toEqual([
        expect.stringContaining(
          'the engine failed (status 500, Internal server error) on a request with the KV of a prefill server',
        ),
      ])
    })

    it('refuses it once, or always - it gets the request again with other KV, then the client gets the refusal', async () => {
      for (const failures of [1, Infinity]) {
        const [p, d] = await pair(failures, refused)
        const server = await gateway(`prefill=${p.url},decode=${d.url}`)
        const { status, text } = await chat(server)
        expect([status, text]).toEqual(
          failures === 1
            ? [200, expect.anything()]
            : [400, expect.stringContaining('the engine refused the request: kv params bad')],
        )
        expect(used(d)).toEqual(['r1', 'r2'])
      }
    })

    it('always - the client gets an error after as many attempts as --migration-limit allows', async () => {
      const [p, d] = await pair(Infinity)
      const limit = ['--migration-limit', '2']
      const server = await gateway(`prefill=${p.url},decode=${d.url}`, '--enforce-disagg', ...limit)
      const { status, text } = await chat(server)
      expect([status, text]).toEqual([503, expect.stringContaining('the engine failed')])
      expect(used(d)).toEqual(['r1', 'r2', 'r3'])
    })
  })

  it('the only SGLang decode server fails at a hand-over - both legs run again in a new room', async () => {
    const failure = { error: { message: 'KVTransferError(bootstrap_room=1): Aborted', code: 500 } }
    const token = {
      output_ids: [735],
      meta_info: { prompt_tokens: 12, finish_reason: { type: 'length', length: 1 } },
    }
    let asked = 0
    const p = await sglang('prefill', () => eventResponse([token]))
    const d = await sglang('decode', () =>
      asked++ === 0 ? jsonResponse(500, failure) : eventResponse([token]),
    )
    const server = await gateway(`${p.url},${d.url}`, '--enforce-disagg')
    expect((await chat(server, { max_tokens: 1 })).status).toBe(200)
    const rooms = d.seen.flatMap(({ body }) => /"bootstrap_room":(\d+)/.exec(body)?.[1] ?? [])
    expect(new Set(rooms).size).toBe(2)
    expect(server.printed()).toContain('the engine failed (status 500, KVTransferError) on a')
  })

  it('an SGLang prefill server that refuses - the decode request is aborted at once', async () => {
    let isLeft = false
    const p = await sglang('prefill', () => jsonResponse(400, { error: { message: 'no' } }))
    const d = await sglang('decode', ({ socket }) => {
      socket.on('close', () => {
        isLeft = true
      })
      return null
    })
    const server = await gateway(`${p.url},${d.url}`, '--enforce-disagg')
    expect((await chat(server)).status).toBe(400)
    await until('the decode request is aborted', () => isLeft)
  })

  it.each([
    [['--upstream', 'http://a', '--prefill', '2'], 'contradict each other'],
    [['--upstream', 'ftp://a'], 'is invalid'],
    [['--engine-requests', '7'], 'has no effect'],
  ])('%j - is refused in one line', async (args, why) => {
    const { exitCode, printed } = await batons.run(['serve', '--port', '0', ...args])
    expect(exitCode).toBe(2)
    expect(printed).toContain(why)
  })
})
