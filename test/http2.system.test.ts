import { once } from 'node:events'
import { connect } from 'node:http2'
import type { ClientHttp2Session, IncomingHttpHeaders } from 'node:http2'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'
import { until } from './until.ts'

const fixture = (name: string): string =>
  fileURLToPath(new URL(`fixtures/tls/${name}`, import.meta.url))

interface Answer {
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

describe('HTTP/2', () => {
  let server: RunningServer
  let client: ClientHttp2Session

  beforeAll(async () => {
    const tls = ['--http-tls-cert', fixture('fleet.pem'), '--http-tls-key', fixture('fleet.key')]
    server = await startServer(['--engine', 'sim', '--aggregated', '1', ...tls])
    client = connect(server.url, { rejectUnauthorized: false })
  })
  afterAll(async () => {
    client.destroy()
    await server.stop()
  })

  function ask(path: string, body?: unknown, more: Record<string, string> = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const method = body === undefined ? 'GET' : 'POST'
      const stream = client.request({
        ':path': path,
        ':method': method,
        'content-type': 'application/json',
        ...more,
      })
      let headers: IncomingHttpHeaders = {}
      let text = ''
      stream.on('response', (got) => (headers = got))
      stream.on('data', (bytes: Buffer) => (text += bytes.toString()))
      stream.on('end', () => resolve({ headers, text }))
      stream.on('error', reject)
      stream.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  const chat = (fields: object): object => ({
    model: 'storyteller',
    messages: [{ role: 'user', content: 'a ü 🎉' }],
    ...fields,
  })

  it('concurrent requests on one connection - each gets its own answer', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        ask('/v1/chat/completions', chat({ max_tokens: i + 1 }), { 'x-request-id': `h2-${i}` }),
      ),
    )
    expect(answers.map(({ headers }) => headers['x-request-id'])).toEqual(
      answers.map((_, i) => `h2-${i}`),
    )
    const tokens = answers.map(
      ({ text }) => (JSON.parse(text) as { usage: { completion_tokens: number } }).usage,
    )
    expect(tokens.map((usage) => usage.completion_tokens)).toEqual(answers.map((_, i) => i + 1))
  })

  it('a stream - arrives with every event and its end', async () => {
    const { headers, text } = await ask(
      '/v1/chat/completions',
      chat({ stream: true, max_tokens: 30 }),
    )
    expect(headers[':status']).toBe(200)
    expect(text.match(/^data: \{/gm)?.length).toBeGreaterThan(20)
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
  })

  it('errors - have their status and format', async () => {
    const { headers, text } = await ask('/v1/chat/completions', chat({ model: 'nope' }))
    expect([headers[':status'], text]).toEqual([404, expect.stringContaining('nope')])
    const large = await ask('/v1/chat/completions', 'x'.repeat(46 * 1024 * 1024))
    expect(large.headers[':status']).toBe(413)
  })

  it('a stream that the client resets - ends on the worker, other streams continue', async () => {
    const running = async (): Promise<number> => {
      const { text } = await ask('/metrics')
      return Number(/^baton_frontend_inflight_requests\{.*\} (\d+)/m.exec(text)?.[1])
    }
    const stream = client.request({
      ':path': '/v1/chat/completions',
      ':method': 'POST',
      'content-type': 'application/json',
    })
    stream.on('error', () => undefined)
    stream.end(JSON.stringify(chat({ stream: true, max_tokens: 900 })))
    await new Promise((resolve) => {
      stream.once('data', resolve)
    })
    expect(await running()).toBe(1)
    stream.close()
    await until('the request has ended', async () => (await running()) === 0)
    const { text } = await ask('/metrics')
    expect(text).toMatch(/baton_frontend_model_cancellation_total\{.*\} 1/)
  })

  it('HTTP/1.1 on the same port - works for clients that do not offer HTTP/2', async () => {
    const { request } = await import('node:https')
    const version = await new Promise((resolve, reject) => {
      const url = `${server.url}/live`
      request(url, { rejectUnauthorized: false }, (reply) => {
        reply.resume()
        resolve(reply.httpVersion)
      })
        .on('error', reject)
        .end()
    })
    expect(version).toBe('1.1')
  })

  it('SIGTERM - in-flight requests complete, then the process exits', async () => {
    const stream = client.request({
      ':path': '/v1/chat/completions',
      ':method': 'POST',
      'content-type': 'application/json',
    })
    stream.end(JSON.stringify(chat({ stream: true, max_tokens: 60 })))
    let text = ''
    stream.once('data', () => server.process.kill('SIGTERM'))
    stream.on('data', (bytes: Buffer) => (text += bytes.toString()))
    await once(stream, 'end')
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
    await until('the process has ended', () => server.process.exitCode === 0)
  })
})
