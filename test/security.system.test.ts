import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

/** SECURITY.md: what any client meets at the HTTP port, sent over raw sockets. */
describe('HTTP port without keys', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer(['--engine', 'sim', '--aggregated', '1'])
  })
  afterAll(() => server.stop())

  /** Sends the text and returns everything received until the connection ends. */
  function exchange(text: string): Promise<string> {
    return new Promise((resolve) => {
      const socket = connect(server.port, '127.0.0.1', () => socket.write(text))
      let got = ''
      socket.on('data', (bytes: Buffer) => (got += bytes.toString()))
      socket.on('error', () => undefined)
      socket.on('close', () => resolve(got))
    })
  }

  const get = (path: string, host: string): Promise<string> =>
    exchange(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  const statusOf = (reply: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(reply)?.[1])

  it.each([
    '127.0.0.1:8000',
    'localhost',
    'localhost:9',
    'baton.localhost',
    '[::1]:80',
    '10.0.0.7',
  ])('Host %s - is accepted as this machine', async (host) => {
    expect(statusOf(await get('/debug/fleet', host))).toBe(200)
  })

  it.each([
    'evil.example',
    'evil.example:8000',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
  ])(
    'Host %s - another name that resolves to this machine is refused on every path',
    async (host) => {
      for (const path of ['/debug/fleet', '/v1/models', '/']) {
        const reply = await get(path, host)
        expect([statusOf(reply), reply]).toEqual([403, expect.stringContaining('--keys')])
      }
    },
  )

  it('a request head over 16 KiB - gets 431', async () => {
    const reply = await exchange(
      `GET /live HTTP/1.1\r\nHost: localhost\r\nx-long: ${'a'.repeat(17_000)}\r\n\r\n`,
    )
    expect(statusOf(reply)).toBe(431)
  })

  it('bytes that are not HTTP - get 400, and the server keeps serving', async () => {
    expect(statusOf(await exchange('\u0000\u0001 nonsense\r\n\r\n'))).toBe(400)
    expect(statusOf(await get('/live', 'localhost'))).toBe(200)
  })

  it('request smuggling with two lengths - is refused', async () => {
    const reply = await exchange(
      'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /debug/fleet HTTP/1.1\r\nHost: localhost\r\n\r\n',
    )
    expect(statusOf(reply)).toBe(400)
    expect(reply).not.toContain('storyteller')
  })
})
