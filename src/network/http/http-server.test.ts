/** Request heads and bodies, whole replies, errors and shutdown of the HTTP server. Streams: http-streams.test.ts. */
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { rawExchange, serve, streamOf, text, url } from '../../../test/network/http-trial.ts'
import { until } from '../../../test/until.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { HttpReply, HttpRequest } from '../../frontend/index.ts'
import { HttpServer } from './http-server.ts'

describe('http server', () => {
  it.each([
    ['http://baton.example:80/v1/models?a=http://x/y', '/v1/models ? a=http://x/y'],
    ['HTTPS://baton.example?a=1', '/ ? a=1'],
    ['http://baton.example', '/ ? '],
    ['/http://x/y', '/http://x/y ? '],
    ['*', '* ? '],
  ])(
    'target %s - of an absolute URL only the path is used, because a proxy may send one',
    async (target, seen) => {
      const trial = await serve(async ({ path, query }) => text(`${path} ? ${query}`))
      const answer = await rawExchange(
        trial.server.port,
        `OPTIONS ${target} HTTP/1.1\r\nHost: baton.example\r\nConnection: close\r\n\r\n`,
      )
      expect(answer).toContain(`\r\n\r\n${seen}`)
    },
  )

  it('request - becomes a value: method, path, query, headers, body', async () => {
    const seen: HttpRequest[] = []
    const trial = await serve(async (request) => {
      seen.push(request)
      return text('ok')
    })
    await fetch(url(trial, '/a/b?c=d'), {
      method: 'POST',
      headers: { 'X-One': '1' },
      body: 'hello',
    })
    const [request] = seen
    expect(request).toMatchObject({ method: 'POST', path: '/a/b', query: 'c=d' })
    expect(request?.headers['x-one']).toBe('1')
    expect(new TextDecoder().decode(request?.body)).toBe('hello')
  })

  it('body - up to the limit it is accepted, one byte above is 413 and never reaches the handler', async () => {
    let calls = 0
    const trial = await serve(
      async (request) => {
        calls += 1
        return text(String(request.body.length))
      },
      { bodyBytesMax: 100 },
    )
    const post = async (bytes: number) =>
      (await fetch(url(trial), { method: 'POST', body: 'x'.repeat(bytes) })).status
    expect([await post(99), await post(100), await post(101)]).toEqual([200, 200, 413])
    expect(calls).toBe(2)
  })

  it('body - a client that sends all of it before it reads gets its 413', async () => {
    const trial = await serve(async () => text('ok'), { bodyBytesMax: 20_000_000 })
    const reply = await fetch(url(trial), { method: 'POST', body: new Uint8Array(30_000_000) })
    expect([reply.status, await reply.text()]).toEqual([
      413,
      expect.stringContaining('request.payload_too_large'),
    ])
  })

  it('body - one without an end is cut off', async () => {
    const trial = await serve(async () => text('ok'), { bodyBytesMax: 100, refusedBodyMs: 200 })
    const answer = await rawExchange(
      trial.server.port,
      `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n${'x'.repeat(1000)}`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 413/)
  })

  it('body - chunked and above the limit is 413 as well', async () => {
    const trial = await serve(async () => text('ok'), { bodyBytesMax: 100 })
    const answer = await rawExchange(
      trial.server.port,
      `POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n65\r\n${'x'.repeat(101)}\r\n0\r\n\r\n`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 413/)
  })

  it('body - a client that disconnects before its end causes no request', async () => {
    let calls = 0
    const trial = await serve(async () => {
      calls += 1
      return text('ok')
    })
    const socket = connect(trial.server.port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhello')
    await until('the request has begun', () => trial.server.requestsActive === 1)
    socket.destroy()
    await until('it is over', () => trial.server.requestsActive === 0)
    expect([calls, trial.faults]).toEqual([0, []])
  })

  it('a reply that needs no body - is sent without reading it, and the connection is kept', async () => {
    let calls = 0
    const early = { status: 401, headers: {}, body: 'who are you?' }
    const handle = async (): Promise<HttpReply> => {
      calls += 1
      return text('ok')
    }
    const trial = await serve(handle, { bodyBytesMax: 100, early })
    const post = (body: string) => fetch(url(trial), { method: 'POST', body })
    const replies = [await post(''), await post('x'.repeat(50)), await post('x'.repeat(5000))]
    expect(replies.map(({ status }) => status)).toEqual([401, 401, 401])
    expect(replies.map(({ headers }) => headers.get('connection'))).toEqual(
      Array(3).fill('keep-alive'),
    )
    expect(calls).toBe(0)
  })

  it('a reply that needs no body - a client that sends without end is disconnected', async () => {
    const early = { status: 401, headers: {}, body: '' }
    const trial = await serve(async () => text('ok'), { bodyBytesMax: 100, early })
    const answer = await rawExchange(
      trial.server.port,
      `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n${'x'.repeat(2_200_000)}`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 401[^]*connection: close/i)
  })

  it.each([
    ['a reply that needs no body', { early: { status: 401, headers: {}, body: 'no key' } }, 401, 5],
    ['a body that is too large', {}, 413, 5000],
  ])(
    'Expect: 100-continue, %s - is answered at once, and the client is not asked for its body',
    async (_what, limits, status, length) => {
      // A server that waited for the body would do so for an hour.
      const trial = await serve(async () => text('late'), { ...limits, refusedBodyMs: 3_600_000 })
      const answer = await rawExchange(
        trial.server.port,
        `POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`,
      )
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(answer).toMatch(/\r\nconnection: close\r\n/i)
    },
  )

  it('Expect: 100-continue - the client is asked for a body that is wanted', async () => {
    const trial = await serve(async ({ body }) => text(`${body.length} bytes`))
    const answer = await rawExchange(
      trial.server.port,
      'POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello',
    )
    expect(answer).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK[^]*5 bytes$/)
  })

  it('Expect: 100-continue over HTTP/1.0 - is ignored: the only answer is the last one', async () => {
    const trial = await serve(async ({ body }) => text(`${body.length} bytes`))
    const answer = await rawExchange(
      trial.server.port,
      'POST / HTTP/1.0\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello',
    )
    expect(answer).toMatch(/^HTTP\/1.1 200 OK[^]*5 bytes$/)
  })

  it('whole replies - pipelined requests get theirs in order: ASCII, other text, bytes, empty, HEAD', async () => {
    const bodies: Readonly<Record<string, string | Uint8Array>> = {
      '/ascii': 'plain',
      '/long': 'x'.repeat(100_000),
      '/other': 'häßlich ☃',
      '/bytes': Uint8Array.of(104, 105),
      '/nothing': '',
    }
    const trial = await serve(async ({ path }) => ({
      status: 200,
      headers: {},
      body: bodies[path] ?? 'unknown',
    }))
    const ask = (method: string, path: string, more = ''): string =>
      `${method} ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`
    const names = Object.keys(bodies)
    const answer = await rawExchange(
      trial.server.port,
      [
        ...names.map((path) => ask('GET', path)),
        ask('HEAD', '/ascii'),
        ask('GET', '/ascii', 'Connection: close\r\n'),
      ].join(''),
    )
    const bytes = Buffer.from(answer, 'latin1')
    const found: string[] = []
    for (let at = 0; at < bytes.length;) {
      const headEnd = bytes.indexOf('\r\n\r\n', at) + 4
      const length = Number(/content-length: (\d+)/i.exec(bytes.toString('utf8', at, headEnd))?.[1])
      const isHead = found.length === names.length
      found.push(isHead ? `${length}` : bytes.toString('utf8', headEnd, headEnd + length))
      at = headEnd + (isHead ? 0 : length)
    }
    const texts = names.map((path) => Buffer.from(bodies[path] ?? '').toString())
    expect(found).toEqual([...texts, '5', 'plain'])
  })

  it('handler - an internal error is reported and answered without its text', async () => {
    const trial = await serve(() => Promise.reject(new Error('secret path')))
    const reply = await fetch(url(trial))
    expect(reply.status).toBe(500)
    expect(await reply.text()).not.toContain('secret')
    expect(trial.faults).toHaveLength(1)
  })

  it.each([
    'Host: a\r\nHOST: b',
    'Host: a\r\nAuthorization: Bearer x\r\nauthorization: Bearer x',
    'Host: a\r\nx-api-key: b\r\nX-API-Key: c',
  ])('%j - 400 and the connection is closed, whatever the values', async (repeated) => {
    const trial = await serve(async () => text('ok'))
    const next = 'GET /next HTTP/1.1\r\nhost: a\r\n\r\n'
    const heard = await rawExchange(
      trial.server.port,
      `GET / HTTP/1.1\r\n${repeated}\r\n\r\n${next}`,
    )
    expect(heard.match(/^HTTP\/1.1 \d+/gm)).toEqual(['HTTP/1.1 400'])
  })

  it.each([
    ['chunked', [200, 200]],
    ['Chunked', [200, 200]],
    ['gzip, chunked', [400]],
    ['chunked, chunked', [400]],
  ])('transfer-encoding %j - %j', async (coding, statuses) => {
    const trial = await serve(async () => text('ok'))
    const next = 'GET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'
    const heard = await rawExchange(
      trial.server.port,
      `POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: ${coding}\r\n\r\n1\r\nx\r\n0\r\n\r\n${next}`,
    )
    expect(heard.match(/HTTP\/1.1 \d+/g)).toEqual(statuses.map((status) => `HTTP/1.1 ${status}`))
  })

  it('several x-request-id headers - the first one counts', async () => {
    const trial = await serve(async ({ headers }) => text(`id ${headers['x-request-id']}.`))
    const ask = (ids: string): Promise<string> =>
      rawExchange(trial.server.port, `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${ids}\r\n`)
    expect(await ask('x-request-id: one\r\nX-Request-Id: two\r\n')).toContain('id one.')
    expect(await ask('x-request-id: one, two\r\n')).toContain('id one, two.')
    expect(await ask('x-request-id: one\r\n')).toContain('id one.')
  })

  it('status 529 - has a reason phrase', async () => {
    const trial = await serve(async () => ({ ...text('busy'), status: 529 }))
    expect((await fetch(url(trial))).statusText).toBe('Overloaded')
  })

  it('listen - a port in use is reported with the name of the flag', async () => {
    const trial = await serve(async () => text('ok'))
    await expect(
      HttpServer.listen({
        host: '127.0.0.1',
        port: trial.server.port,
        open: () => ({ bodyBytesMax: 0, answer: async () => text(''), refuse: () => text('') }),
        onFault: () => undefined,
      }),
    ).rejects.toMatchObject({
      code: 'host.address_in_use',
      message: expect.stringContaining('--port'),
    })
  })

  it('close - lets a request in flight end and reports none cut off', async () => {
    let finish: (() => void) | null = null
    const trial = await serve(
      () => new Promise((resolve) => (finish = () => resolve(text('done')))),
    )
    const reply = fetch(url(trial))
    await expect.poll(() => finish !== null).toBe(true)
    const closed = trial.server.close(5000)
    const end = finish as (() => void) | null
    end?.()
    expect(await (await reply).text()).toBe('done')
    expect(await closed).toBe(0)
  })

  it('close - cuts off requests after the grace period, and they know it when close returns', async () => {
    const signals: CancelSignal[] = []
    const trial = await serve(({ path, signal }) => {
      signals.push(signal)
      if (path === '/whole') return new Promise(() => undefined)
      return Promise.resolve(streamOf((writer) => writer.write('begun', true)))
    })
    const whole = fetch(url(trial, '/whole')).catch((error: unknown) => error)
    const streamed = (await fetch(url(trial))).text().catch((error: unknown) => error)
    await expect.poll(() => trial.server.requestsActive).toBe(2)
    expect(await trial.server.close(20)).toBe(2)
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
    expect(trial.server.requestsActive).toBe(0)
    expect(await whole).toBeInstanceOf(Error)
    expect(await streamed).toBeInstanceOf(Error)
  })
})
