/**
 * Invalid or empty answers of an upstream behind a gateway: the client gets an error after a few attempts, and it
 * is not a client error.
 */
import { gzipSync } from 'node:zlib'
import { expect, it, onTestFinished } from 'vitest'
import { engineServer, startGateway } from '../forward/gateway-kit.ts'
import { jsonResponse } from './transcripts.ts'

const CLOSE = 'Connection: close\r\n\r\n'
const whole = (type: string, body: string): string =>
  `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n${CLOSE}${body}`

const GZIP = Buffer.concat([
  Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n${CLOSE}`,
  ),
  gzipSync('data: {"choices":[{"text":"hi","finish_reason":"stop"}]}\n\n'),
])

type Answer = Parameters<typeof engineServer>[0]

/** One completion through a gateway whose only upstream answers like this. */
async function completionFrom(answer: Answer) {
  const server = await engineServer(answer)
  const flags = { forward: false, model: 'models/storyteller', servedModelName: 'm' }
  const gateway = await startGateway([{ url: `openai+${server.url}` }], flags)
  onTestFinished(async () => {
    await gateway.close()
    await server.close()
  })
  const response = await fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', prompt: 'hi', max_tokens: 4 }),
  })
  const { status, headers } = response
  return { status, headers, text: await response.text(), attempts: server.asked.length }
}

it.each<[string, () => Buffer | string, number, string]>([
  ['gzip', () => GZIP, 502, 'compresses its answers (gzip)'],
  ['HTML', () => whole('text/html', '<html>'), 503, 'a web page (text/html) came instead'],
  ['nothing', () => whole('application/json', ''), 503, 'without a finish reason'],
  [
    'a redirect',
    () => `HTTP/1.1 307 X\r\nLocation: http://10.0.0.9/\r\nContent-Length: 0\r\n${CLOSE}`,
    500,
    'the engine answered 307',
  ],
  ['204', () => `HTTP/1.1 204 No Content\r\n${CLOSE}`, 500, 'the engine answered 204'],
  [
    '429 with Retry-After',
    () => jsonResponse(429, {}).replace('\r\n', '\r\nRetry-After: 7\r\n'),
    529,
    'no capacity',
  ],
])('%s - is an error after a few attempts', async (name, answer, status, message) => {
  const { headers, attempts, ...said } = await completionFrom(answer)
  expect(said).toEqual({ status, text: expect.stringContaining(message) })
  expect(attempts).toBeLessThan(8)
  if (name.startsWith('429')) expect(headers.get('retry-after')).toBe('7')
})

it('a connection that closes before the first byte - is tried less and less often, the error says why', async () => {
  const { status, text, attempts } = await completionFrom(({ socket }) => {
    socket.destroy()
    return null
  })
  expect([status, text]).toEqual([503, expect.stringContaining('the upstream')])
  // Each attempt is sent twice.
  expect(attempts).toBeLessThan(18)
})
