/**
 * Unusual but valid answers, and invalid answers, of every kind of engine: the reply is what the server sent or a
 * typed error, and never tokens that it did not generate.
 */
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { BatonError } from '../../src/base/index.ts'
import { loadModelText } from '../../src/host/index.ts'
import { StreamValidator } from '../../src/engine/index.ts'
import type { Chunk } from '../../src/request/index.ts'
import type { UpstreamEngine, UpstreamKind } from '../../src/upstream/index.ts'
import { chunksOf, requestOf, startedEngine, tokensOf } from './engine-kit.ts'
import { fakeServer, jsonResponse } from './transcripts.ts'
import type { SeenRequest } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

const ROUTES = ['/v1/completions', '/completion', '/generate']
const ABOUT: Readonly<Record<string, unknown>> = {
  '/health': {},
  '/v1/models': { data: [{ id: 'm', max_model_len: 4096 }] },
  '/props': { total_slots: 2 },
  '/model_info': { model_path: 'm' },
}

async function engineOf(
  kind: UpstreamKind,
  answer: (request: SeenRequest) => Buffer | string | null,
  hasModel = kind === 'openai',
): Promise<UpstreamEngine> {
  const server = await fakeServer((request) => {
    if (ROUTES.includes(request.path)) return answer(request)
    const about = ABOUT[request.path]
    return about === undefined ? jsonResponse(404, {}) : jsonResponse(200, about)
  })
  const model = { modelPath: 'models/storyteller', loadText: loadModelText }
  const engine = await startedEngine({ url: server.url, kind, ...(hasModel ? model : {}) })
  open.push({ close: () => engine.cleanup() }, server)
  return engine
}

/** How each kind of server encodes the tokens 7, 8, 9. */
const EVENTS: Readonly<Record<UpstreamKind, readonly object[]>> = {
  vllm: [
    { choices: [{ index: 0, text: 'a', token_ids: [7], finish_reason: null }] },
    { choices: [{ index: 0, text: 'b', token_ids: [8], finish_reason: null }] },
    { choices: [{ index: 0, text: 'c', token_ids: [9], finish_reason: 'length' }] },
    { choices: [], usage: { prompt_tokens: 27, completion_tokens: 3 } },
  ],
  sglang: [
    { text: 'a', output_ids: [7], meta_info: { completion_tokens: 1 } },
    { text: 'ab', output_ids: [7, 8], meta_info: { completion_tokens: 2 } },
    {
      text: 'abc',
      output_ids: [7, 8, 9],
      meta_info: { completion_tokens: 3, finish_reason: { type: 'length' }, prompt_tokens: 27 },
    },
  ],
  'llama-server': [
    { content: 'a', tokens: [7], stop: false, tokens_predicted: 1 },
    { content: 'b', tokens: [8], stop: false, tokens_predicted: 2 },
    { content: 'c', tokens: [9], stop: false, tokens_predicted: 3 },
    { content: '', tokens: [], stop: true, stop_type: 'limit', tokens_predicted: 3 },
  ],
  openai: [
    { choices: [{ index: 0, text: 'a', finish_reason: null }] },
    { choices: [{ index: 0, text: 'b', finish_reason: null }] },
    { choices: [{ index: 0, text: 'c', finish_reason: 'length' }] },
    { choices: [], usage: { prompt_tokens: 27, completion_tokens: 3 } },
  ],
}
const KINDS = Object.keys(EVENTS) as UpstreamKind[]

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'
const closing = (body: string): string => `${HEAD}Connection: close\r\n\r\n${body}`
const sse = (events: readonly unknown[], end = '\n\n'): string =>
  events.map((event) => `data: ${JSON.stringify(event)}${end}`).join('')

function chunked(body: string, extension = '', trailer = ''): string {
  const bytes = Buffer.from(body)
  let text = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`
  for (let at = 0; at < bytes.length; at += 13) {
    const piece = bytes.subarray(at, at + 13)
    text += `${piece.length.toString(16).toUpperCase()}${extension}\r\n${piece.toString('latin1')}\r\n`
  }
  return `${text}0\r\n${trailer}\r\n`
}

const ODD: readonly (readonly [string, (events: readonly object[]) => string])[] = [
  ['CRLF', (events) => closing(sse(events, '\r\n\r\n'))],
  ['a byte order mark', (events) => closing(`\ufeff${sse(events)}`)],
  ['no blank behind data:', (events) => closing(sse(events).replaceAll('data: ', 'data:'))],
  [
    'comments, ids and names of events',
    (events) => closing(`: hi\n\nid: 4\nevent: message\nretry: 5\n${sse(events)}:\n\n`),
  ],
  ['empty events', (events) => closing(`\n\n\n${sse(events)}data:\n\ndata: \n\n`)],
  ['an event over two lines', (events) => closing(sse(events).replaceAll(',"', ',\ndata: "'))],
  ['[DONE] twice', (events) => closing(`${sse(events)}data: [DONE]\n\ndata: [DONE]\n\n`)],
  ['no empty line at the end', (events) => closing(sse(events).trimEnd())],
  [
    'chunks with extensions and a trailer',
    (events) => chunked(sse(events), ' ;a="b"', 'X-T: 1\r\n'),
  ],
  [
    'a 100 and a 103 before',
    (events) =>
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${chunked(sse(events))}`,
  ],
  [
    'HTTP/1.0',
    (events) => `HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n${sse(events)}`,
  ],
  [
    'a length and bytes behind it',
    (events) =>
      `${HEAD}Content-Length: ${Buffer.byteLength(sse(events))}\r\n\r\n${sse(events)}HTTP/1.1 200 OK\r\n\r\n`,
  ],
  ['the end told twice', (events) => closing(sse([...events, ...events.slice(-1)]))],
  [
    'events of no meaning',
    (events) =>
      closing(
        `data: null\n\ndata: 3\n\ndata: {"object":"x"}\n\ndata: {"choices":[]}\n\ndata: not json\n\n${sse(events)}`,
      ),
  ],
  [
    'a content type with parameters in capitals',
    (events) =>
      closing(sse(events)).replace('text/event-stream', 'Text/Event-Stream; Charset=utf-8'),
  ],
  [
    'no content type',
    (events) => closing(sse(events)).replace('Content-Type: text/event-stream\r\n', ''),
  ],
  [
    'large headers',
    (events) =>
      closing(sse(events)).replace('Connection', `X-Large: ${'x'.repeat(60_000)}\r\nConnection`),
  ],
]

async function read(engine: UpstreamEngine): Promise<{ chunks: Chunk[]; text: string }> {
  const request = requestOf({ stop: { maxTokens: 3 } })
  const chunks = await chunksOf(engine, request)
  const validator = new StreamValidator({ request })
  for (const chunk of chunks) validator.chunk(chunk)
  validator.end()
  return { chunks, text: chunks.map(({ text = '' }) => text).join('') }
}

describe.each(KINDS)('%s, unusual answers', (kind) => {
  it.each(ODD)('%s - gives the same answer', async (_name, write) => {
    const engine = await engineOf(kind, () => Buffer.from(write(EVENTS[kind])))
    const { chunks, text } = await read(engine)
    expect(kind === 'openai' ? text : tokensOf(chunks)).toEqual(
      kind === 'openai' ? 'abc' : [7, 8, 9],
    )
    expect(chunks.at(-1)?.finish).toBe('length')
  })

  it('split at every byte - same answer', async () => {
    const bytes = Buffer.from(chunked(sse(EVENTS[kind], '\r\n\r\n')))
    const engine = await engineOf(kind, ({ socket }) => {
      socket.setNoDelay(true)
      const write = (at: number): void => {
        if (at >= bytes.length || socket.destroyed) return
        socket.write(bytes.subarray(at, at + 1))
        setImmediate(write, at + 1)
      }
      write(0)
      return null
    })
    const { chunks, text } = await read(engine)
    expect(kind === 'openai' ? text : tokensOf(chunks)).toEqual(
      kind === 'openai' ? 'abc' : [7, 8, 9],
    )
  })
})

const first = (kind: UpstreamKind): readonly object[] => EVENTS[kind].slice(0, 1)
const WRONG: readonly (readonly [string, (kind: UpstreamKind) => Buffer | string])[] = [
  [
    'an error within the stream',
    (kind) =>
      closing(sse([...first(kind), { error: { message: 'CUDA error at /srv/x.py', code: 500 } }])),
  ],
  [
    'an error as a text within the stream',
    (kind) => closing(sse([...first(kind), { error: 'out of memory' }])),
  ],
  ['the end of the connection within the stream', (kind) => closing(sse(first(kind)))],
  ['[DONE] without an end', (kind) => closing(`${sse(first(kind))}data: [DONE]\n\n`)],
  ['a length that is too long', (kind) => `${HEAD}Content-Length: 9999\r\n\r\n${sse(first(kind))}`],
  [
    'a chunk that is too short',
    (kind) => `${HEAD}Transfer-Encoding: chunked\r\n\r\nfff\r\n${sse(first(kind))}`,
  ],
  [
    'an answer that is gzip',
    (kind) =>
      Buffer.concat([
        Buffer.from(
          'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n',
        ),
        gzipSync(sse(EVENTS[kind])),
      ]),
  ],
  ['HTML', () => 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>'],
  ['an empty 200', () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['204', () => 'HTTP/1.1 204 No Content\r\n\r\n'],
  ['a redirect', () => 'HTTP/1.1 307 X\r\nLocation: http://10.0.0.9/\r\nContent-Length: 0\r\n\r\n'],
  ['429', () => jsonResponse(429, { error: { message: 'slow down' } })],
  ['401', () => jsonResponse(401, { error: { message: 'wrong key sk-1' } })],
  [
    '422 as FastAPI says it',
    () => jsonResponse(422, { detail: [{ loc: ['body'], msg: 'Field required' }] }),
  ],
  [
    '500 with a traceback',
    () => jsonResponse(500, { detail: 'Traceback (most recent call last):\n File "/srv/x.py"' }),
  ],
  ['endless headers', () => `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(20_000)}`],
  ['no HTTP', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
]

describe.each(KINDS)('%s, invalid answers', (kind) => {
  it.each(WRONG)(
    '%s - a typed error without internal details of the server',
    async (_name, write) => {
      const engine = await engineOf(kind, ({ socket }) => {
        socket.end(write(kind))
        return null
      })
      const error = await read(engine).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      expect(error).toBeInstanceOf(BatonError)
      expect((error as BatonError).code).not.toBe('runtime.internal')
      expect((error as BatonError).message).not.toMatch(/srv|10\.0\.0|sk-1|127\.0\.0\.1/)
    },
  )

  it('text without ids - is refused if ids were requested', async () => {
    const texts: Readonly<Record<UpstreamKind, readonly object[]>> = {
      vllm: [{ choices: [{ index: 0, text: 'abc', finish_reason: 'stop' }] }],
      sglang: [
        { text: 'abc', meta_info: { completion_tokens: 3, finish_reason: { type: 'stop' } } },
      ],
      'llama-server': [
        { content: 'abc', stop: false },
        { content: '', stop: true, stop_type: 'eos' },
      ],
      openai: [{ choices: [{ text: '', finish_reason: 'stop' }] }],
    }
    const engine = await engineOf(kind, () => closing(sse(texts[kind])))
    const answer = read(engine)
    if (kind === 'openai') expect((await answer).text).toBe('')
    else await expect(answer).rejects.toMatchObject({ code: 'backend.contract_violation' })
  })

  it('impossible numbers - are ignored', async () => {
    const usage = {
      prompt_tokens: -5,
      completion_tokens: 1e30,
      prompt_tokens_details: { cached_tokens: 1.5 },
    }
    const odd = EVENTS[kind].map((event, index) =>
      index < EVENTS[kind].length - 1
        ? event
        : {
            ...event,
            usage,
            timings: { cache_n: -7 },
            tokens_evaluated: -1,
            ...('meta_info' in event
              ? {
                  meta_info: {
                    ...(event.meta_info as object),
                    cached_tokens: 1e12,
                    prompt_tokens: 0.5,
                  },
                }
              : {}),
          },
    )
    const engine = await engineOf(kind, () => closing(sse(odd)))
    const { chunks } = await read(engine)
    expect(chunks.at(-1)?.finish).toBe('length')
  })
})

const withIds = (kind: UpstreamKind, ids: readonly unknown[], text: string): object => {
  switch (kind) {
    case 'vllm':
      return { choices: [{ index: 0, text, token_ids: ids, finish_reason: null }] }
    case 'sglang':
      return { text, output_ids: ids, meta_info: { completion_tokens: ids.length } }
    default:
      return { content: text, tokens: ids, stop: false, tokens_predicted: ids.length }
  }
}

describe.each(['vllm', 'sglang', 'llama-server'] as const)('%s, ids that are no ids', (kind) => {
  it.each([
    ['negative', [-1]],
    ['nothing', [null]],
    ['one of several', [7, null]],
    ['text', ['7']],
    ['a fraction', [7.5]],
    ['above 32 bits', [2 ** 32]],
  ])('%s - the request ends with an error', async (_name, ids) => {
    for (const text of ['a', '']) {
      const events = [withIds(kind, ids, text), ...EVENTS[kind]]
      const engine = await engineOf(kind, () => closing(sse(events)))
      await expect(read(engine)).rejects.toMatchObject({ code: 'backend.contract_violation' })
    }
  })

  it('an id outside the vocabulary - the request ends with an error', async () => {
    const engine = await engineOf(kind, () => closing(sse([withIds(kind, [5000], 'a')])), true)
    await expect(read(engine)).rejects.toMatchObject({ code: 'backend.contract_violation' })
  })

  it('no list of ids without text - is no output', async () => {
    const [head, ...rest] = EVENTS[kind]
    const none = withIds(kind, [], '')
    const key = { vllm: 'token_ids', sglang: 'output_ids', 'llama-server': 'tokens' }[kind]
    const without = JSON.parse(
      JSON.stringify(none).replace(`"${key}":[]`, `"${key}":null`),
    ) as object
    const engine = await engineOf(kind, () => closing(sse([without, head, ...rest])))
    expect(tokensOf((await read(engine)).chunks)).toEqual([7, 8, 9])
  })
})

describe('sglang, counts that do not match the ids', () => {
  const event = (output_ids: readonly number[], completion_tokens: number, finish?: string) => ({
    text: 'x',
    output_ids,
    meta_info: {
      completion_tokens,
      ...(finish === undefined ? {} : { finish_reason: { type: finish } }),
    },
  })

  it('before it is known whether events repeat all ids - an error, and no token is given twice', async () => {
    const events = [event([7], 1), event([7, 8], 4), event([7, 8, 9], 3, 'stop')]
    const engine = await engineOf('sglang', () => closing(sse(events)))
    await expect(read(engine)).rejects.toMatchObject({ code: 'backend.contract_violation' })
  })

  it.each([4, 5])('later, at %i tokens - each token is given once', async (count) => {
    const events = [event([7], 1), event([7, 8], 2), event([7, 8, 9], count, 'stop')]
    const engine = await engineOf('sglang', () => closing(sse(events)))
    expect(tokensOf((await read(engine)).chunks)).toEqual([7, 8, 9])
  })

  it('an end without ids that counts the token of the end - is an answer', async () => {
    const events = [event([7], 1), event([8, 9], 3), event([], 4, 'stop')]
    const engine = await engineOf('sglang', () => closing(sse(events)))
    expect(tokensOf((await read(engine)).chunks)).toEqual([7, 8, 9])
  })
})
