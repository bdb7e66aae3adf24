/** Forward mode: failures of engines. */
import { describe, expect, it } from 'vitest'
import { eventResponse, fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { SeenRequest } from '../upstream/transcripts.ts'
import { ask } from './gateway-kit.ts'
import {
  ASK,
  CHAT,
  STREAM_HEAD,
  WHOLE,
  chunk,
  closeAfterwards,
  engine,
  gatewayOf,
  idle,
} from './faulty-engines.ts'

describe('before the first byte of the response', () => {
  it('the connection ends - the request is sent once more, to another engine', async () => {
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

  it('the connection ends at every engine - one retry, then an error in the format of the API', async () => {
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

  it('the connection ends once at the only engine - the request is sent to it again', async () => {
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

  it.each([502, 503, 504])(
    'status %i from one engine - another engine is asked',
    async (status) => {
      let failed = 0
      const answer = (): string =>
        failed++ === 0 ? jsonResponse(status, { error: 'http://10.0.0.9:8000 is down' }) : WHOLE
      const engines = [await engine(answer), await engine(answer)]
      const gateway = await gatewayOf(engines)
      expect((await ask(gateway.port, CHAT, ASK)).status).toBe(200)
      expect(engines.map(({ asked }) => asked.length)).toEqual([1, 1])
    },
  )

  it('no response - times out with an error', async () => {
    const only = await engine(() => null)
    const gateway = await gatewayOf([only], { engineAnswerSeconds: 1 })
    const { status, body } = await ask(gateway.port, CHAT, ASK)
    expect([503, 504, 408]).toContain(status)
    expect(body.toString()).not.toContain('127.0.0.1')
    await idle(gateway)
  })

  it('repeated failures - open the circuit breaker, so that a dead engine is not asked again at once', async () => {
    const dead = await engine((request) => {
      request.socket.destroy()
      return null
    })
    const gateway = await gatewayOf([dead])
    for (let i = 0; i < 6; i++) expect((await ask(gateway.port, CHAT, ASK)).status).toBe(503)
    expect(dead.asked.length).toBeLessThan(12)
  })
})

describe('error responses of an engine', () => {
  it.each([
    [400, { error: { message: 'bad temperature', type: 'BadRequestError', code: 400 } }],
    [400, { error: 'as a text' }],
    [422, { detail: [{ loc: ['body', 'messages'], msg: 'Field required', type: 'missing' }] }],
    [404, { error: { message: 'The model `x` does not exist.' } }],
    [500, { error: { message: 'bad grammar', type: 'server_error', code: 500 } }],
    [429, { error: { message: 'slow down' } }],
  ])('%i %j - is returned unchanged', async (status, value) => {
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
    [401, { error: { message: 'wrong key sk-1' } }],
    [403, { error: { message: 'see /srv/x.py' } }],
  ])('%i %j - is returned without internal details', async (status, value) => {
    const refused = jsonResponse(status, value)
    const gateway = await gatewayOf([await engine(() => refused)])
    const answer = await ask(gateway.port, CHAT, ASK)
    expect(answer.status).toBeGreaterThanOrEqual(400)
    const text = answer.body.toString()
    expect(JSON.parse(text)).toHaveProperty('error.message')
    expect(text).not.toMatch(/srv|Traceback|10\.1\.2|sk-1/)
  })

  it('an HTML page of a proxy - becomes an error in the format of the API', async () => {
    const page = '<html><body><h1>500</h1><address>nginx at gpu-17</address></body></html>'
    const head = `HTTP/1.1 500 X\r\nContent-Type: text/html\r\nContent-Length: ${page.length}`
    const gateway = await gatewayOf([await engine(() => `${head}\r\n\r\n${page}`)])
    const { status, body } = await ask(gateway.port, CHAT, ASK)
    expect(status).toBeGreaterThanOrEqual(500)
    expect(JSON.parse(body.toString())).toHaveProperty('error.message')
    expect(body.toString()).not.toContain('gpu-17')
  })

  it('200 with an HTML page - is no answer: another engine is asked, else it is an error', async () => {
    const page = '<!DOCTYPE html>\n<html><body>Welcome to nginx at gpu-17</body></html>'
    const head = `HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: ${page.length}`
    const wrong = await engine(() => `${head}\r\n\r\n${page}`)
    const alone = await gatewayOf([wrong])
    const { status, body } = await ask(alone.port, CHAT, ASK)
    expect(status).toBe(503)
    expect(JSON.parse(body.toString())).toHaveProperty('error.message')
    expect(body.toString()).not.toContain('gpu-17')

    const right = await engine(() => WHOLE)
    const both = await gatewayOf([wrong, right])
    for (let i = 0; i < 3; i++) expect((await ask(both.port, CHAT, ASK)).status).toBe(200)
  })

  it('200 with text that calls itself HTML, as some servers of transcripts do - is the answer', async () => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5'
    const gateway = await gatewayOf([await engine(() => `${head}\r\n\r\nhello`)])
    expect((await ask(gateway.port, CHAT, ASK)).body.toString()).toBe('hello')
  })

  it('a redirect - is not followed and its target is not shown', async () => {
    const gateway = await gatewayOf([
      await engine(
        () => 'HTTP/1.1 307 X\r\nLocation: http://10.0.0.1/x\r\nContent-Length: 0\r\n\r\n',
      ),
    ])
    const { status, head } = await ask(gateway.port, CHAT, ASK)
    expect(status).toBeGreaterThanOrEqual(500)
    expect(head).not.toContain('10.0.0.1')
  })

  it('headers that name hosts - are removed', async () => {
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

describe('during a stream', () => {
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

  it('a stream that is not SSE breaks off - the connection is closed', async () => {
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

  it('an error event with a path - is shown without the path, others unchanged', async () => {
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

  it('no more bytes - the idle timeout ends the stream with an error event', async () => {
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
    'events split at every byte, lines end with %j - are returned unchanged',
    async (end) => {
      const text = [
        'data: {"a":"ü"}',
        '',
        ': ping',
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

describe('raw TCP servers', () => {
  it('a server that does not speak HTTP - becomes an error, and Baton keeps running', async () => {
    const odd = await fakeServer(({ method, path }) =>
      method === 'POST'
        ? 'SSH-2.0-OpenSSH\r\n\r\n'
        : path === '/v1/models'
          ? jsonResponse(200, { data: [{ id: 'm' }] })
          : undefined,
    )
    closeAfterwards(odd)
    const gateway = await gatewayOf([odd])
    expect((await ask(gateway.port, CHAT, ASK)).status).toBeGreaterThanOrEqual(500)
  })
})
