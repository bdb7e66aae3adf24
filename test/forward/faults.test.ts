/** Engines that go wrong, and clients that leave, while a request is passed through. */
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../until.ts'
import { eventResponse, fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { SeenRequest } from '../upstream/transcripts.ts'
import { ask, engineServer, post, startGateway } from './gateway-kit.ts'
import type { ForwardEngineServer, Gateway } from './gateway-kit.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

type Answer = (request: SeenRequest) => Buffer | string | null | undefined

async function engine(answer: Answer): Promise<ForwardEngineServer> {
  const server = await engineServer(answer)
  open.push(server)
  return server
}

async function gatewayOf(
  engines: readonly { url: string }[],
  flags: Readonly<Record<string, unknown>> = {},
): Promise<Gateway> {
  const gateway = await startGateway(engines, flags)
  open.push(gateway)
  return gateway
}

const WHOLE = jsonResponse(200, { id: 'x', usage: { prompt_tokens: 7, completion_tokens: 3 } })
const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const CHAT = '/v1/chat/completions'
const ASK = '{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'

const metricsOf = async (gateway: Gateway): Promise<string> =>
  await (await fetch(`${gateway.url}/metrics`)).text()

const BOOKED =
  /^baton_frontend_(?:inflight_requests|worker_active_decode_blocks|worker_active_prefill_tokens)\{.*\} (?!0$)/m

const idle = (gateway: Gateway): Promise<void> =>
  until('nothing is booked any more', async () => !BOOKED.test(await metricsOf(gateway)))

describe('before the first byte', () => {
  it('the connection ends - the request is sent once more, elsewhere', async () => {
    let failed = 0
    const answer = (request: SeenRequest): string | null => {
      if (failed === 0) {
        failed += 1
        request.socket.destroy()
        return null
      }
      return WHOLE
    }
    const engines = [await engine(answer), await engine(answer)]
    const gateway = await gatewayOf(engines)
    expect((await ask(gateway.port, CHAT, ASK)).status).toBe(200)
    expect(engines.map(({ asked }) => asked.length)).toEqual([1, 1])
  })

  it('it ends everywhere - one retry and then an error in the form of the API', async () => {
    const answer = (request: SeenRequest): null => {
      request.socket.destroy()
      return null
    }
    const engines = [await engine(answer), await engine(answer), await engine(answer)]
    const gateway = await gatewayOf(engines)
    const { status, body } = await ask(gateway.port, CHAT, ASK)
    expect(status).toBe(503)
    expect(JSON.parse(body.toString())).toHaveProperty('error.message')
    expect(engines.flatMap(({ asked }) => asked)).toHaveLength(2)
    await idle(gateway)
  })

  it('it ends once at the only engine - the request is sent to it once more', async () => {
    let failed = 0
    const only = await engine((request) => {
      if (failed++ > 0) return WHOLE
      request.socket.destroy()
      return null
    })
    const gateway = await gatewayOf([only])
    expect((await ask(gateway.port, CHAT, ASK)).status).toBe(200)
    expect(only.asked).toHaveLength(2)
  })

  it.each([502, 503, 504])('%i of one engine - another one is asked', async (status) => {
    let failed = 0
    const answer = (): string =>
      failed++ === 0 ? jsonResponse(status, { error: 'http://10.0.0.9:8000 is down' }) : WHOLE
    const engines = [await engine(answer), await engine(answer)]
    const gateway = await gatewayOf(engines)
    expect((await ask(gateway.port, CHAT, ASK)).status).toBe(200)
    expect(engines.map(({ asked }) => asked.length)).toEqual([1, 1])
  })

  it('nothing comes - the deadline of the first byte is an error', async () => {
    const only = await engine(() => null)
    const gateway = await gatewayOf([only], { engineAnswerSeconds: 1 })
    const { status, body } = await ask(gateway.port, CHAT, ASK)
    expect([503, 504, 408]).toContain(status)
    expect(body.toString()).not.toContain('127.0.0.1')
    await idle(gateway)
  })

  it('the breaker opens after failures, and a dead engine is not asked again at once', async () => {
    const dead = await engine((request) => {
      request.socket.destroy()
      return null
    })
    const gateway = await gatewayOf([dead])
    for (let i = 0; i < 6; i++) expect((await ask(gateway.port, CHAT, ASK)).status).toBe(503)
    expect(dead.asked.length).toBeLessThan(12)
  })
})

describe('refusals of an engine', () => {
  it.each([
    [400, { error: { message: 'bad temperature', type: 'BadRequestError', code: 400 } }],
    [400, { error: 'as a text' }],
    [422, { detail: [{ loc: ['body', 'messages'], msg: 'Field required', type: 'missing' }] }],
    [404, { error: { message: 'The model `x` does not exist.' } }],
    [500, { error: { message: 'bad grammar', type: 'server_error', code: 500 } }],
    [429, { error: { message: 'slow down' } }],
  ])('%i %j - come back as they came', async (status, value) => {
    const refused = jsonResponse(status, value)
    const gateway = await gatewayOf([await engine(() => refused)])
    const answer = await ask(gateway.port, CHAT, ASK)
    expect(answer.status).toBe(status)
    expect(answer.body.toString()).toBe(JSON.stringify(value))
  })

  it.each([
    [400, { error: { message: "No such file: '/srv/models/x/config.json'" } }],
    [500, { error: { message: 'Traceback (most recent call last)' } }],
    [400, { error: 'upstream http://10.1.2.3:8000/v1 said no' }],
    [422, { detail: 'see \\/srv\\/x\\/y.py line 3' }],
    [401, { error: { message: 'wrong key' } }],
    [403, { error: { message: 'no' } }],
  ])('%i %j - are told without what is inside', async (status, value) => {
    const refused = jsonResponse(status, value)
    const gateway = await gatewayOf([await engine(() => refused)])
    const answer = await ask(gateway.port, CHAT, ASK)
    expect(answer.status).toBeGreaterThanOrEqual(400)
    const text = answer.body.toString()
    expect(JSON.parse(text)).toHaveProperty('error.message')
    expect(text).not.toMatch(/srv|Traceback|10\.1\.2|wrong key|"no"/)
  })

  it('a redirect - is not followed and tells nothing', async () => {
    const gateway = await gatewayOf([
      await engine(
        () => 'HTTP/1.1 307 X\r\nLocation: http://10.0.0.1/x\r\nContent-Length: 0\r\n\r\n',
      ),
    ])
    const { status, head } = await ask(gateway.port, CHAT, ASK)
    expect(status).toBeGreaterThanOrEqual(500)
    expect(head).not.toContain('10.0.0.1')
  })

  it('headers that name hosts - stay here', async () => {
    const answer = WHOLE.replace(
      'Connection',
      'X-Served-By: 10.0.0.4:8000\r\nServer: uvicorn\r\nConnection',
    )
    const gateway = await gatewayOf([await engine(() => answer)])
    const { head } = await ask(gateway.port, CHAT, ASK)
    expect(head).not.toMatch(/10\.0\.0\.4|uvicorn/)
    expect(head).toMatch(/x-request-id: /i)
  })
})

describe('in the middle of a stream', () => {
  it.each([
    [CHAT, /^data: \{"a":1\}\n\ndata: \{"error":\{[^\n]*\}\}\n\ndata: \[DONE\]\n\n$/],
    ['/v1/messages', /^data: \{"a":1\}\n\nevent: error\ndata: \{"type":"error"[^\n]*\}\n\n$/],
    ['/v1/responses', /^data: \{"a":1\}\n\nevent: error\ndata: [^\n]*\}\n\n$/],
  ])('%s: the engine dies - whole events, then an error event', async (path, expected) => {
    const dying = await engine((request) => {
      request.socket.write(STREAM_HEAD + chunk('data: {"a":1}\n\ndata: {"b":'))
      setTimeout(() => request.socket.destroy(), 20)
      return null
    })
    const gateway = await gatewayOf([dying])
    const answer = await ask(gateway.port, path, ASK)
    expect(answer.status).toBe(200)
    expect(answer.body.toString()).toMatch(expected)
    expect(answer.isCutOff).toBe(false)
    expect(dying.asked).toHaveLength(1)
    await idle(gateway)
  })

  it('bytes that are no events break off - the connection is closed', async () => {
    const dying = await engine((request) => {
      request.socket.write(
        `HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 9000000\r\n\r\n${'x'.repeat(2000)}`,
      )
      setTimeout(() => request.socket.destroy(), 20)
      return null
    })
    const gateway = await gatewayOf([dying])
    const answer = await ask(gateway.port, '/v1/audio/speech', '{"model":"m"}')
    expect(answer.isCutOff).toBe(true)
  })

  it('an error event with a path in it - is told without the path, others as they came', async () => {
    const clean = 'data: {"error":{"message":"out of memory","code":500}}'
    const gateway = await gatewayOf([
      await engine(() =>
        eventResponse([{ a: 1 }, 'data: {"error":{"message":"in /srv/x/y.py"}}', clean, '[DONE]']),
      ),
    ])
    const text = (await ask(gateway.port, CHAT, ASK)).body.toString()
    expect(text).toContain('data: {"a":1}\n\n')
    expect(text).toContain(`${clean}\n\n`)
    expect(text).not.toContain('srv')
  })

  it('nothing more comes - the deadline between bytes ends it with an error event', async () => {
    const silent = await engine((request) => {
      request.socket.write(STREAM_HEAD + chunk('data: {"a":1}\n\n'))
      return null
    })
    const gateway = await gatewayOf([silent], { engineIdleSeconds: 1 })
    const text = (await ask(gateway.port, CHAT, ASK)).body.toString()
    expect(text).toMatch(/^data: \{"a":1\}\n\ndata: \{"error"/)
    await idle(gateway)
  })

  it.each(['\n', '\r\n'])(
    'events cut at every byte, lines end with %j - come back as they were',
    async (end) => {
      const text = [
        'data: {"a":"ü"}',
        '',
        ': c',
        '',
        'event: x',
        'data: 2',
        '',
        'data: [DONE]',
        '',
        '',
      ].join(end)
      const bytes = Buffer.from(text)
      const gateway = await gatewayOf([
        await engine((request) => {
          const { socket } = request
          socket.write(STREAM_HEAD)
          let at = 0
          const next = (): void => {
            if (at === bytes.length) return void socket.end('0\r\n\r\n')
            socket.write(
              Buffer.concat([Buffer.from('1\r\n'), bytes.subarray(at, ++at), Buffer.from('\r\n')]),
            )
            setImmediate(next)
          }
          next()
          return null
        }),
      ])
      expect((await ask(gateway.port, CHAT, ASK)).body.toString()).toBe(text)
    },
  )
})

describe('a client', () => {
  it('that leaves - the connection to the engine is closed at once, and nothing stays booked', async () => {
    let isClosed = false
    const slow = await engine((request) => {
      request.socket.on('close', () => (isClosed = true))
      request.socket.write(STREAM_HEAD + chunk('data: {"a":1}\n\n'))
      return null
    })
    const gateway = await gatewayOf([slow])
    const socket = post(gateway.port, CHAT, ASK)
    await new Promise((resolve) => socket.once('data', resolve))
    socket.destroy()
    await until('the engine is left', () => isClosed)
    await idle(gateway)
  })

  it('that leaves before the first byte - the same', async () => {
    let isClosed = false
    const slow = await engine((request) => {
      request.socket.on('close', () => (isClosed = true))
      return null
    })
    const gateway = await gatewayOf([slow])
    const socket = post(gateway.port, CHAT, ASK)
    await until('the engine is asked', () => slow.asked.length === 1)
    expect(await metricsOf(gateway)).toMatch(BOOKED)
    socket.destroy()
    await until('the engine is left', () => isClosed)
    await idle(gateway)
  })

  it('that reads slowly - holds the engine back, and gets everything', async () => {
    const event = `data: ${'x'.repeat(16_000)}\n\n`
    const count = 4000
    const sentTo: number[] = []
    const fast = await engine((request) => {
      const { socket } = request
      const reader = sentTo.push(0) - 1
      let sent = 0
      socket.write(STREAM_HEAD)
      const more = (): void => {
        while (sent < count) {
          sentTo[reader] = sent += 1
          if (!socket.write(chunk(event))) return void socket.once('drain', more)
        }
        socket.end('0\r\n\r\n')
      }
      more()
      return null
    })
    const gateway = await gatewayOf([fast])
    const socket = post(gateway.port, CHAT, ASK, 'connection: close\r\n')
    socket.pause()
    await until('the engine answers', () => (sentTo[0] ?? 0) > 0)
    // Meanwhile one that reads gets everything.
    const whole = await ask(gateway.port, CHAT, ASK)
    expect(whole.body.length).toBeGreaterThan(count * (event.length - 8))
    expect(sentTo[1]).toBe(count)
    expect(sentTo[0]).toBeLessThan(count)
    let bytes = 0
    socket.on('data', (piece) => (bytes += piece.length))
    socket.resume()
    await new Promise((resolve) => socket.once('close', resolve))
    expect(bytes).toBeGreaterThan(count * event.length)
  })
})

describe('bounds', () => {
  it.each([
    [99, 200],
    [100, 200],
    [101, 413],
  ])('a body of %i bytes where 100 are allowed - %i', async (length, status) => {
    const gateway = await gatewayOf([await engine(() => WHOLE)], { bodyLimit: 100 })
    const body = '{"model":"m","x":""}'.replace('""', `"${'x'.repeat(length - 20)}"`)
    expect(Buffer.byteLength(body)).toBe(length)
    expect((await ask(gateway.port, CHAT, body)).status).toBe(status)
  })

  it('more requests than an engine may have - go to another one, and then are refused', async () => {
    const held: SeenRequest[] = []
    const hold = (request: SeenRequest): null => {
      held.push(request)
      return null
    }
    const gateway = await gatewayOf([await engine(hold), await engine(hold)], { engineRequests: 4 })
    const answers = Array.from({ length: 8 }, () => ask(gateway.port, CHAT, ASK))
    await until('all are there', () => held.length === 8)
    const refused = await ask(gateway.port, CHAT, ASK)
    expect([429, 503, 529]).toContain(refused.status)
    for (const { socket } of held) socket.end(WHOLE)
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200)
  })
})

describe('what is counted and told', () => {
  it('tokens of the usage, load that is freed, and the decision of the router', async () => {
    const usage = {
      prompt_tokens: 70,
      completion_tokens: 30,
      prompt_tokens_details: { cached_tokens: 64 },
    }
    const gateway = await gatewayOf([
      await engine(() => eventResponse([{ a: 1 }, { choices: [], usage }, '[DONE]'])),
    ])
    await ask(gateway.port, CHAT, ASK, 'x-request-id: call-1\r\n')
    await idle(gateway)
    const text = await metricsOf(gateway)
    expect(text).toMatch(/^baton_frontend_output_tokens_total\{.*\} 30$/m)
    expect(text).toMatch(/^baton_frontend_time_to_first_token_seconds_count\{.*\} 1$/m)
    const explained = await fetch(`${gateway.url}/debug/requests/call-1`)
    expect(explained.status).toBe(200)
    expect(JSON.stringify(await explained.json())).toContain('forwarded as it came')
  })

  it('conversations that begin alike - go to the engine that has seen them', async () => {
    const engines = await Promise.all([
      engine(() => WHOLE),
      engine(() => WHOLE),
      engine(() => WHOLE),
    ])
    const gateway = await gatewayOf(engines)
    const say = (who: string, turns: number): string =>
      JSON.stringify({
        model: 'm',
        messages: Array.from({ length: turns }, (_, turn) => ({
          role: turn % 2 === 0 ? 'user' : 'assistant',
          content: `${who} says in turn ${turn}: ${`${who} ${turn} `.repeat(200)}`,
        })),
      })
    const names = ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay']
    for (let turns = 1; turns < 6; turns += 2) {
      for (const name of names) await ask(gateway.port, CHAT, say(name, turns))
    }
    for (const name of names) {
      const counts = engines.map(
        ({ asked }) => asked.filter(({ body }) => body.includes(`${name} says`)).length,
      )
      expect(counts.toSorted((left, right) => left - right)).toEqual([0, 0, 3])
    }
  })

  it("an endpoint that Baton has not - is the engine's", async () => {
    const only = await engine(() => WHOLE)
    const gateway = await gatewayOf([only])
    for (const path of ['/v1/audio/transcriptions', '/v1/rerank', '/score', '/v1/embeddings']) {
      expect((await ask(gateway.port, path, '{"model":"m"}')).status).toBe(200)
    }
    expect((await ask(gateway.port, '/release_memory_occupation', '{}')).status).toBe(404)
    expect(only.asked.map(({ path }) => path)).toEqual([
      '/v1/audio/transcriptions',
      '/v1/rerank',
      '/score',
      '/v1/embeddings',
    ])
  })

  it('a form - goes on as it came, without fields of KV transfer', async () => {
    const only = await engine(() => WHOLE)
    const gateway = await gatewayOf([only])
    const part = (name: string, value: string): string =>
      `--XX\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
    const file =
      '--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n\u0000--XX\u0001\r\n'
    const body = `${part('model', 'm')}${part('kv_transfer_params', '{}')}${file}${part('n', '1')}--XX--\r\n`
    const headers = 'content-type: multipart/form-data; boundary=XX\r\n'
    const answer = await ask(gateway.port, '/v1/audio/transcriptions', body, headers)
    expect(answer.status).toBe(200)
    expect(only.asked[0]?.body).toBe(`${part('model', 'm')}${file}${part('n', '1')}--XX--\r\n`)
  })
})

describe('servers of raw bytes', () => {
  it('a server that speaks no HTTP - is an error and no crash', async () => {
    const odd = await fakeServer(({ method, path }) =>
      method === 'POST'
        ? 'SSH-2.0-OpenSSH\r\n\r\n'
        : path === '/v1/models'
          ? jsonResponse(200, { data: [{ id: 'm' }] })
          : undefined,
    )
    open.push(odd)
    const gateway = await gatewayOf([odd])
    expect((await ask(gateway.port, CHAT, ASK)).status).toBeGreaterThanOrEqual(500)
  })
})
