import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { HttpReply, HttpRequest, StreamWriter } from '../../frontend/index.ts'
import { HttpServer } from './http-server.ts'
import type { SlowReader } from './unsent-bytes.ts'

interface Trial {
  readonly server: HttpServer
  readonly faults: unknown[]
  readonly slowReaders: SlowReader[]
}

async function serve(
  handle: (request: HttpRequest) => Promise<HttpReply>,
  limits: {
    bodyBytesMax?: number
    bufferedBytesMax?: number
    unsentBytesMax?: number
    refusedBodyMs?: number
    early?: HttpReply
  } = {},
): Promise<Trial> {
  const faults: unknown[] = []
  const slowReaders: SlowReader[] = []
  const { bodyBytesMax = 1000, early, bufferedBytesMax = 1_000_000 } = limits
  const { unsentBytesMax = 100_000_000, refusedBodyMs } = limits
  const server = await HttpServer.listen({
    host: '127.0.0.1',
    port: 0,
    open: (head) => ({
      ...(early === undefined ? {} : { reply: early }),
      bodyBytesMax: head.method === 'GET' ? 0 : bodyBytesMax,
      answer: (body) => handle({ ...head, body }),
      refuse: ({ code, row }) => ({ status: row.httpStatus, headers: {}, body: code }),
    }),
    onFault: (error) => faults.push(error),
    streamLimits: { bufferedBytesMax, unsentBytesMax },
    onSlowReader: (reader) => slowReaders.push(reader),
    ...(refusedBodyMs === undefined ? {} : { refusedBodyMs }),
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  return { server, faults, slowReaders }
}

const text = (body: string): HttpReply => ({
  status: 200,
  headers: { 'content-type': 'text/plain' },
  body,
})
const streamOf = (open: (writer: StreamWriter) => void): HttpReply => ({
  status: 200,
  headers: { 'content-type': 'text/event-stream', 'x-request-id': 'r1' },
  body: { open },
})
const url = (trial: Trial, path = '/'): string => `http://127.0.0.1:${trial.server.port}${path}`

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

  it('whole replies - requests sent together get theirs in order: ASCII, other text, bytes, nothing, to HEAD too', async () => {
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

  it('streams - of requests sent together each is complete, in order', async () => {
    const writers: StreamWriter[] = []
    const trial = await serve(async () => streamOf((writer) => void writers.push(writer)))
    const exchange = rawExchange(
      trial.server.port,
      'GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    )
    await until('both streams are open', () => writers.length === 2)
    // The second is written first, and has to wait for the first.
    const named = writers.map((writer, at) => [writer, at + 1] as const)
    for (const [writer, name] of named.reverse()) {
      writer.write(`begin ${name};`, true)
      writer.writeNow?.(`now ${name};`)
      writer.write(`é ${name};`, false)
      writer.end()
    }
    const answer = await exchange
    const shown = answer
      .split('\r\n')
      .filter((line) => line.includes(';'))
      .join('')
    expect(Buffer.from(shown, 'latin1').toString()).toBe('begin 1;now 1;é 1;begin 2;now 2;é 2;')
    expect(answer.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
  })

  it('stream - text written in many turns arrives complete, ASCII and other', async () => {
    const pieces = ['one ', 'two ', 'drei ü ', '四 🎉 ', 'five']
    const trial = await serve(async () =>
      streamOf((writer) => {
        let next = 0
        const tick = (): void => {
          const piece = pieces[next++]
          if (piece === undefined) return writer.end()
          writer.write(piece, /^[ -~]*$/.test(piece))
          setImmediate(tick)
        }
        tick()
      }),
    )
    expect(await (await fetch(url(trial))).text()).toBe(pieces.join(''))
  })

  it('stream - text written in one turn is sent as one chunk', async () => {
    const trial = await serve(async () =>
      streamOf((writer) => {
        setImmediate(() => {
          for (const piece of ['a', 'b', 'c']) writer.write(piece, true)
          writer.end()
        })
      }),
    )
    const answer = await rawExchange(
      trial.server.port,
      'GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    )
    expect(answer).toContain('\r\n3\r\nabc\r\n0\r\n')
  })

  it('stream - a client that disconnects aborts the signal; later writes are ignored', async () => {
    let gone: CancelSignal | null = null
    let writer: StreamWriter | null = null
    const trial = await serve(async (request) => {
      gone = request.signal
      return streamOf((opened) => {
        writer = opened
        opened.write('first', true)
      })
    })
    const leave = new AbortController()
    const reply = await fetch(url(trial), { signal: leave.signal })
    await reply.body?.getReader().read()
    leave.abort()
    await expect.poll(() => gone?.aborted).toBe(true)
    const opened = writer as StreamWriter | null
    opened?.write('more', true)
    opened?.end()
    await expect.poll(() => trial.server.requestsActive).toBe(0)
    expect(trial.faults).toEqual([])
  })

  it('stream - a client that does not read is disconnected at the buffer limit', async () => {
    let aborted = false
    let reason: unknown
    const trial = await serve(
      async (request) => {
        request.signal.addEventListener('abort', () => {
          aborted = true
          reason = request.signal.reason
        })
        return streamOf((writer) => {
          const tick = (): void => {
            if (aborted) return
            writer.write('x'.repeat(65_536), true)
            setImmediate(tick)
          }
          tick()
        })
      },
      { bufferedBytesMax: 300_000 },
    )
    const socket = connect(trial.server.port, '127.0.0.1')
    socket.on('error', () => socket.destroy())
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    socket.pause()
    await expect.poll(() => aborted, { timeout: 10_000 }).toBe(true)
    expect(reason).toBe('the client read too slowly: its reply was cut')
    expect(trial.slowReaders).toEqual([
      {
        requestId: 'r1',
        unsentBytes: expect.any(Number),
        limit: 'bufferedBytesMax',
        limitBytes: 300_000,
      },
    ])
    socket.destroy()
  })

  it('more than the limit at once - a client that reads gets it', async () => {
    const long = 'x'.repeat(3_000_000)
    const trial = await serve(
      async () =>
        streamOf((writer) => {
          writer.write(long, true)
          writer.end()
        }),
      { bufferedBytesMax: 300_000 },
    )
    const response = await fetch(url(trial))
    expect((await response.text()).length).toBe(long.length)
    expect(trial.slowReaders).toEqual([])
  })

  it('many clients that do not read - the slowest are disconnected at their common limit', async () => {
    const piece = 'x'.repeat(65_536)
    const ended: string[] = []
    const trial = await serve(
      async (request) => {
        let isGone = false
        request.signal.addEventListener('abort', () => {
          isGone = true
          ended.push(request.path)
        })
        return streamOf((writer) => {
          // One of them gets a third of the text of the others.
          let left = request.path === '/small' ? 80 : 240
          const tick = (): void => {
            if (isGone || left-- === 0) return
            writer.write(piece, true)
            setImmediate(tick)
          }
          tick()
        })
      },
      { bufferedBytesMax: 50_000_000, unsentBytesMax: 20_000_000 },
    )
    const sockets = ['/small', '/large', '/larger'].map((path) => {
      const socket = connect(trial.server.port, '127.0.0.1')
      socket.on('error', () => socket.destroy())
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
      socket.pause()
      return socket
    })
    await expect.poll(() => trial.slowReaders.length, { timeout: 10_000 }).toBeGreaterThan(0)
    expect(trial.slowReaders[0]).toMatchObject({ limit: 'unsentBytesMax', limitBytes: 20_000_000 })
    expect(ended).not.toContain('/small')
    for (const socket of sockets) socket.destroy()
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

  it('close - a reply that is cut off may write a last event', async () => {
    let writer: StreamWriter | null = null
    const trial = await serve(async () =>
      streamOf((opened) => {
        writer = opened
        opened.write('begun ', true)
      }),
    )
    const reply = await fetch(url(trial))
    const cutOff = await trial.server.close(10, () => {
      const opened = writer as StreamWriter | null
      opened?.write('ended here', true)
      opened?.end()
    })
    expect([cutOff, await reply.text()]).toEqual([1, 'begun ended here'])
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

function rawExchange(port: number, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    socket.on('data', (bytes) => (answer += bytes.toString('latin1')))
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
    socket.write(request)
  })
}
