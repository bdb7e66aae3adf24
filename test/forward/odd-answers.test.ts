/** Forward mode: unusual but valid answers are returned unchanged; invalid ones become one error of the API. */
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SeenRequest } from '../upstream/transcripts.ts'
import { jsonResponse } from '../upstream/transcripts.ts'
import { ask, engineServer, startGateway } from './gateway-kit.ts'
import type { ForwardEngineServer, Gateway } from './gateway-kit.ts'

const CHAT = '/v1/chat/completions'
const STREAM = '{"model":"m","stream":true,"messages":[]}'
const WHOLE = '{"model":"m","messages":[]}'
const INSIDE = 'File "/srv/secret/run.py" failed at http://gpu-17.internal:8000/v1'
let engine: ForwardEngineServer
let gateway: Gateway
let answer: (request: SeenRequest) => Buffer | string | null

beforeAll(async () => {
  engine = await engineServer((request) => answer(request))
  gateway = await startGateway([engine])
})
afterAll(async () => {
  await gateway.close()
  await engine.close()
})

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'
const closing = (body: string): string => `${HEAD}Connection: close\r\n\r\n${body}`
const role = '{"choices":[{"delta":{"role":"assistant","content":null}}]}'
const call =
  '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\\"error\\":1}"}}]}}]}'
const usage = '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}'
const finish = '{"choices":[{"delta":{},"finish_reason":"stop"}]}'

describe('streamed answer', () => {
  it.each([
    ['CRLF', `data: ${role}\r\n\r\ndata: ${finish}\r\n\r\ndata: [DONE]\r\n\r\n`],
    ['a byte order mark', `\ufeffdata: ${role}\n\ndata: ${finish}\n\n`],
    ['no blank behind data:', `data:${role}\n\ndata:${finish}\n\n`],
    [
      'tool calls whose arguments tell of an error',
      `data: ${role}\n\ndata: ${call}\n\ndata: ${finish}\n\n`,
    ],
    [
      'an end told twice, usage alone',
      `data: ${finish}\n\ndata: ${finish}\n\ndata: ${usage}\n\ndata: [DONE]\n\n`,
    ],
    [
      'comments, names and ids of events',
      `:\n\nevent: a\nid: 1\ndata: ${role}\n\n: keep-alive 3/12\n\n`,
    ],
    ['no empty line at the end', `data: ${role}\n\ndata: ${finish}`],
    ['CR alone', `data: ${role}\r\rdata: ${finish}\r\r`],
    [
      'an error event that may be shown',
      `data: ${role}\n\ndata: {"error":{"message":"too long"}}\n\n`,
    ],
    ['nothing', ''],
  ])('%s - is returned unchanged', async (_name, body) => {
    answer = () => Buffer.from(closing(body))
    const seen = await ask(gateway.port, CHAT, STREAM)
    expect([seen.status, seen.body.toString(), seen.isCutOff]).toEqual([200, body, false])
  })

  it.each([
    ['\n', '', ''],
    ['\r\n', 'data: 1', 'data: 1'],
    ['\r', 'data: 1', 'data: 1'],
  ])(
    'comments that may name a host, lines end with %j - are returned without their text',
    async (end, first, shown) => {
      const said = [
        ': ping host',
        ': ping 10.0.0.7',
        ':worker gpu-17.cluster.local',
        'data: {":":": not a comment"}',
        ': see /srv/models',
        ': ping',
      ]
      const hidden = [':', ':', ':', 'data: {":":": not a comment"}', ':', ': ping']
      const body = [first, ...said].join(`${end}${end}`)
      answer = () => Buffer.from(closing(body))
      const seen = await ask(gateway.port, CHAT, STREAM)
      expect(seen.body.toString()).toBe([shown, ...hidden].join(`${end}${end}`))
    },
  )

  it.each([
    ['HTTP/1.0', `HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n`],
    [
      '100 and 103 before',
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\n\r\n${closing('data: 1\n\n')}`,
    ],
    [
      'chunks with extensions and a trailer',
      `${HEAD}Transfer-Encoding: chunked\r\n\r\n9;a=b\r\ndata: 1\n\n\r\n0\r\nX-T: 1\r\n\r\n`,
    ],
    [
      'a length, and bytes behind it',
      `${HEAD}Content-Length: 9\r\n\r\ndata: 1\n\nHTTP/1.1 200 OK\r\n\r\n`,
    ],
    [
      'a type in capitals',
      closing('data: 1\n\n').replace('text/event-stream', 'Text/Event-Stream;charset=UTF-8'),
    ],
  ])('framed as %s - is returned with the same events', async (_name, response) => {
    answer = ({ socket }) => {
      socket.end(response)
      return null
    }
    const seen = await ask(gateway.port, CHAT, STREAM)
    expect([seen.status, seen.body.toString()]).toEqual([200, 'data: 1\n\n'])
  })

  it.each([
    ['ends too early for its length', `${HEAD}Content-Length: 500\r\n\r\ndata: 1\n\ndata: {"ha`],
    ['ends within a chunk', `${HEAD}Transfer-Encoding: chunked\r\n\r\nff\r\ndata: 1\n\ndata: {"ha`],
    ['has a broken chunk', `${HEAD}Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\nzz\r\n`],
  ])('the stream %s - whole events, then one error event', async (_name, response) => {
    answer = ({ socket }) => {
      socket.end(response)
      return null
    }
    const text = (await ask(gateway.port, CHAT, STREAM)).body.toString()
    expect(text.startsWith('data: 1\n\n')).toBe(true)
    expect(text.match(/"error"/g)).toHaveLength(1)
    expect(text).not.toContain('"ha')
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  it.each([
    ['behind other members', { id: 'x', choices: [], error: { message: INSIDE } }],
    ['in a choice', { choices: [{ index: 0, error: { message: INSIDE, code: 502 } }] }],
    ['in a response', { type: 'response.failed', response: { error: { message: INSIDE } } }],
    ['as a text', { id: 'x', error: INSIDE }],
    ['as a problem', { status: 500, title: 'x', detail: INSIDE }],
  ])('an error %s with internal details - is shown without them', async (_name, event) => {
    answer = () => Buffer.from(closing(`data: ${role}\n\ndata: ${JSON.stringify(event)}\n\n`))
    const text = (await ask(gateway.port, CHAT, STREAM)).body.toString()
    expect(text.startsWith(`data: ${role}\n\n`)).toBe(true)
    expect(text).toContain('"error"')
    expect(text).not.toMatch(/secret|gpu-17/)
  })

  it.each([
    ['its name behind other fields', `retry: 1\nid: 7\nevent: error\ndata: boom ${INSIDE}\n\n`],
    ['its name at the end', `data: boom ${INSIDE}\nevent: error\n\n`],
    ['a byte order mark', `\ufeffevent: error\ndata: boom ${INSIDE}\n\n`],
    ['an id before a lone detail', `id: 7\ndata: {"detail":"${INSIDE.replaceAll('"', '')}"}\n\n`],
  ])(
    'an error event with %s and internal details - is shown without them',
    async (_name, event) => {
      answer = () => Buffer.from(closing(event))
      const text = (await ask(gateway.port, CHAT, STREAM)).body.toString()
      expect(text).toContain('"error"')
      expect(text).not.toMatch(/secret|gpu-17/)
    },
  )

  it('model output about an error, and a null error - are returned unchanged', async () => {
    const said = { choices: [{ delta: { content: `{"error": "${INSIDE}"}` } }], error: null }
    const body = `data: ${JSON.stringify(said)}\n\ndata: ${finish}\n\n`
    answer = () => Buffer.from(closing(body))
    expect((await ask(gateway.port, CHAT, STREAM)).body.toString()).toBe(body)
  })

  it('encoded with gzip - is forwarded encoded, chunk by chunk', async () => {
    const bytes = gzipSync(`data: ${role}\n\ndata: ${finish}\n\n`)
    const head = `${HEAD}Content-Encoding: gzip\r\nConnection: close\r\n\r\n`
    answer = () => Buffer.concat([Buffer.from(head), bytes])
    const seen = await ask(gateway.port, CHAT, STREAM)
    expect(seen.head).toMatch(/content-encoding: gzip/i)
    expect(gunzipSync(seen.body).toString()).toBe(`data: ${role}\n\ndata: ${finish}\n\n`)
  })
})

describe('whole answer', () => {
  it('gzip, binary data, no body - is returned unchanged', async () => {
    const bodies = [gzipSync('{"a":1}'), Buffer.from([0, 255, 128, 10, 13]), Buffer.alloc(0)]
    for (const body of bodies) {
      const head = `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\n\r\n`
      answer = () => Buffer.concat([Buffer.from(head), body])
      const seen = await ask(gateway.port, CHAT, WHOLE)
      expect([seen.status, seen.body.equals(body)]).toEqual([200, true])
    }
  })

  it.each([
    { error: { message: INSIDE } },
    { object: 'error', message: INSIDE, code: 500 },
    { detail: INSIDE },
    { id: 'x', choices: [{ error: { message: INSIDE } }] },
  ])(
    '200 with an error and internal details (%j) - becomes an error without them',
    async (fault) => {
      answer = () => jsonResponse(200, fault)
      const seen = await ask(gateway.port, CHAT, WHOLE)
      expect(seen.status).toBeGreaterThanOrEqual(500)
      expect(JSON.parse(seen.body.toString())).toHaveProperty('error.message')
      expect(seen.body.toString()).not.toMatch(/secret|gpu-17/)
    },
  )

  it('200 with a harmless error, or model output about one - is returned unchanged', async () => {
    const told = { choices: [{ message: { content: `{"error":{"message":"${INSIDE}"}}` } }] }
    for (const body of [{ error: { message: 'too long' } }, told]) {
      answer = () => jsonResponse(200, body)
      const seen = await ask(gateway.port, CHAT, WHOLE)
      expect([seen.status, seen.body.toString()]).toEqual([200, JSON.stringify(body)])
    }
  })

  it.each([
    'Cache-Control: a\u0001b',
    'Cache-Control: a\u0000b',
    'Content-Disposition: attachment; filename="\u00e9"',
    'X-RateLimit-\u00e9: 5',
  ])('the header %j, which cannot be written - is left out', async (header) => {
    const text = jsonResponse(200, { ok: true }).replace(
      '\r\n',
      `\r\n${header}\r\nRetry-After: 7\r\n`,
    )
    answer = () => text
    const seen = await ask(gateway.port, CHAT, WHOLE)
    expect([seen.status, seen.body.toString()]).toEqual([200, '{"ok":true}'])
    expect(seen.head).toMatch(/retry-after: 7/i)
    expect(seen.head).not.toMatch(/disposition|cache-control|ratelimit/i)
  })

  it('429 - is returned with Retry-After and its bytes', async () => {
    answer = () =>
      jsonResponse(429, { error: { message: 'slow down' } }).replace(
        '\r\n',
        '\r\nRetry-After: 7\r\n',
      )
    const seen = await ask(gateway.port, CHAT, WHOLE)
    expect([seen.status, seen.body.toString()]).toEqual([429, '{"error":{"message":"slow down"}}'])
    expect(seen.head).toMatch(/retry-after: 7/i)
  })

  it.each([
    ['endless headers', `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(20_000)}`],
    ['no HTTP', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    ['no status', 'HTTP/1.1 099 X\r\nContent-Length: 2\r\n\r\n{}'],
    [
      'a compressed transfer',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    ],
    ['a length that is too long', 'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a":1}'],
  ])('%s - becomes an error of the API', async (_name, response) => {
    answer = ({ socket }) => {
      socket.end(response)
      return null
    }
    const seen = await ask(gateway.port, CHAT, WHOLE)
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect(JSON.parse(seen.body.toString())).toHaveProperty('error.message')
    expect(seen.body.toString()).not.toContain('127.0.0.1')
  })

  it('the next request - is served after any of these', async () => {
    answer = () => jsonResponse(200, { ok: true })
    const seen = await ask(gateway.port, CHAT, WHOLE)
    // Earlier failures may have opened the circuit breaker for half a second.
    expect([200, 503]).toContain(seen.status)
  })
})
