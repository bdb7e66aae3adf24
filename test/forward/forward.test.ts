/** Forward mode: the bytes that the engine receives, and the bytes that the client receives. */
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../until.ts'
import { eventResponse, jsonResponse } from '../upstream/transcripts.ts'
import { ask, engineServer, startGateway } from './gateway-kit.ts'
import type { Gateway } from './gateway-kit.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

async function served(
  answer: Parameters<typeof engineServer>[0],
  flags: Readonly<Record<string, unknown>> = {},
): Promise<{ engine: Awaited<ReturnType<typeof engineServer>>; gateway: Gateway }> {
  const engine = await engineServer(answer)
  open.push(engine)
  const gateway = await startGateway([engine], flags)
  open.push(gateway)
  return { engine, gateway }
}

const WHOLE = jsonResponse(200, {
  id: 'x',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Grüße' } }],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
})

describe('request path', () => {
  it.each([
    '/v1/audio/../../flush_cache',
    '/v1/audio/%2e%2e/%2e%2e/flush_cache',
    '/v1/audio/..%2f..%2fflush_cache',
    '/v1/images/a\\..\\..\\flush_cache',
    '/v1/audio/..;/flush_cache',
    '/v1/audio//slots',
    '/v1/images/generations#x',
  ])('%s - is not forwarded, because a proxy at the engine might resolve it', async (path) => {
    const { engine, gateway } = await served(() => WHOLE)
    expect((await ask(gateway.port, path, '{"model":"m"}')).status).toBe(404)
    expect(engine.asked).toHaveLength(0)
  })

  it.each(['/v1/audio/speech', '/v1/images/edits', '/v1/audio/voices/a-b_c.d'])(
    '%s - is forwarded',
    async (path) => {
      const { engine, gateway } = await served(() => WHOLE)
      expect((await ask(gateway.port, path, '{"model":"m"}')).status).toBe(200)
      expect(engine.asked[0]?.path).toBe(path)
    },
  )
})

describe('request body', () => {
  it('content - is forwarded byte by byte: unknown keys, order, large numbers, white space, parts of any kind', async () => {
    const { engine, gateway } = await served(() => WHOLE)
    const body =
      '{"zeta":1.50, "seed":12345678901234567890,\n\t"model":"m","messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"file","file":{}}],"role":"user"}],"tools":[{"type":"custom","x":{"kv_transfer_params":1}}],"e":1e400}'
    const answer = await ask(gateway.port, '/v1/chat/completions?a=b', body)
    expect(answer.status).toBe(200)
    expect(answer.body.toString()).toBe(WHOLE.slice(WHOLE.indexOf('\r\n\r\n') + 4))
    expect(Buffer.from(engine.asked[0]?.body ?? '', 'latin1').toString()).toBe(body)
    expect(engine.asked[0]?.path).toBe('/v1/chat/completions?a=b')
    expect(engine.asked[0]?.headers['authorization']).toBeUndefined()
  })

  it.each([
    ['{"model":"m","kv_transfer_params":{"do_remote_prefill":true}}', '{"model":"m"}'],
    ['{"kv_transfer_params":{"a":[1,{}]}, "model":"m"}', '{"model":"m"}'],
    [
      '{"model":"m","bootstrap_host":"h","bootstrap_port":1,"bootstrap_room":9,"n":1}',
      '{"model":"m","n":1}',
    ],
    ['{"model":"m","n":1,"bootstrap_room":9, "disaggregated_params":{}}', '{"model":"m","n":1}'],
    [
      '{"model":"m","vllm_xargs":{"kv_transfer_params":"{}","k":1}}',
      '{"model":"m","vllm_xargs":{"k":1}}',
    ],
    ['{"model":"m","vllm_xargs":{"kv_transfer_params":1}}', '{"model":"m","vllm_xargs":{}}'],
    [
      '{"model":"m","sampling_params":{"extra_args":{"a":0,"ec_transfer_params":1}}}',
      '{"model":"m","sampling_params":{"extra_args":{"a":0}}}',
    ],
    ['{"model":"m","\\u006bv_transfer_params":1}', '{"model":"m"}'],
    ['{"model":"m","kv_transfer_params":1,"kv_transfer_params":2}', '{"model":"m"}'],
    [
      '{"model":"m","messages":[{"kv_transfer_params":1}]}',
      '{"model":"m","messages":[{"kv_transfer_params":1}]}',
    ],
  ])('%s - is forwarded without KV transfer fields', async (body, sent) => {
    const { engine, gateway } = await served(() => WHOLE)
    expect((await ask(gateway.port, '/v1/chat/completions', body)).status).toBe(200)
    expect(engine.asked[0]?.body).toBe(sent)
  })

  it.each([
    '{"model":"m"',
    '[1]',
    '',
    '{"model":"m",}',
    '{"a" 1}',
    '{"model":"m"} x',
    '{"a":tru}',
    '{"a":"b',
    '{"a":01}',
  ])('%s - is refused by Baton with 400', async (body) => {
    const { engine, gateway } = await served(() => WHOLE)
    const answer = await ask(gateway.port, '/v1/chat/completions', body)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.body.toString())).toHaveProperty('error.message')
    expect(engine.asked).toEqual([])
  })

  it('chunked with Expect: 100-continue - is forwarded with its length', async () => {
    const { engine, gateway } = await served(() => WHOLE)
    const socket = connect(gateway.port, '127.0.0.1')
    open.push({ close: () => socket.destroy() })
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n',
    )
    await until('100 Continue', () => text.startsWith('HTTP/1.1 100 Continue\r\n\r\n'))
    socket.write('b\r\n{"model":"m\r\n14;x=y\r\n","messages":[1.50]}\r\n0\r\nX-T: 1\r\n\r\n')
    await until('it is answered', () => text.includes('HTTP/1.1 200 OK'))
    expect(engine.asked[0]?.body).toBe('{"model":"m","messages":[1.50]}')
    expect(engine.asked[0]?.headers['content-length']).toBe('31')
  })

  it('a model alias - is replaced by the name that the engine knows', async () => {
    const { engine, gateway } = await served(() => WHOLE, { servedModelName: 'mine' })
    await ask(
      gateway.port,
      '/v1/chat/completions',
      '{"n":1, "model" : "mine","kv_transfer_params":0}',
    )
    expect(engine.asked[0]?.body).toBe('{"n":1, "model" : "m"}')
  })

  const at = (name: string): string =>
    `{"model" :"${name}","text":"ü \\"model\\":\\"/srv/m\\"","response":{"model": "${name}"},"other":"/srv/m","list":["model","x"]}`

  it.each([
    ['a stream', '{"model":"mine","stream":true}'],
    ['without a name', '{"stream":true}'],
    ['whole', '{"model":"mine"}'],
  ])('%s - is answered with the name that clients use', async (_name, body) => {
    const isStream = body.includes('stream')
    const answer = isStream
      ? eventResponse([at('/srv/m'), at('/srv/m')].map((event) => `data: ${event}`))
      : jsonResponse(200, JSON.parse(at('/srv/m')))
    const server = await engineServer(() => Buffer.from(answer), ['/srv/m'])
    const gateway = await startGateway([server], { servedModelName: 'mine' })
    open.push(server, gateway)
    const seen = await ask(gateway.port, '/v1/chat/completions', body)
    const text = seen.body.toString()
    if (isStream) expect(text).toBe(`data: ${at('mine')}\n\ndata: ${at('mine')}\n\n`)
    else expect(JSON.parse(text)).toEqual(JSON.parse(at('mine')))
  })
})

describe('streamed response', () => {
  it('events - are returned unchanged, with comments and without [DONE]', async () => {
    const text = eventResponse([
      ': keepalive 1/1',
      { a: 'ü' },
      { b: 1, usage: { prompt_tokens: 1 } },
    ])
    const { gateway } = await served(() => Buffer.from(text))
    const answer = await ask(gateway.port, '/v1/chat/completions', '{"model":"m","stream":true}')
    expect(answer.head).toMatch(/content-type: text\/event-stream/i)
    expect(answer.head).toMatch(/^x-accel-buffering: no\r?$/im)
    expect(answer.body.toString()).toBe(text.slice(text.indexOf('\r\n\r\n') + 4))
    expect(answer.isCutOff).toBe(false)
  })
})
