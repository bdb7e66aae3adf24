/** Without `--forward`: requests are sent as tokens where possible, otherwise as the client's own bytes. */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterEach, describe, expect, it } from 'vitest'
import { eventResponse, fakeServer, jsonResponse, responseOf } from '../upstream/transcripts.ts'
import type { FakeServer } from '../upstream/transcripts.ts'
import { ask, engineServer, startGateway } from './gateway-kit.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

const ABOUT: Readonly<Record<string, string>> = {
  '/props': 'get_props',
  '/health': 'get_health',
  '/v1/models': 'get_models',
  '/metrics': 'get_metrics_idle',
}
const TOKENS = eventResponse([
  { content: 'x', tokens: [735], stop: false },
  { content: '', tokens: [], stop: true, stop_type: 'limit', tokens_evaluated: 9, timings: {} },
])

async function llamaServer(): Promise<FakeServer> {
  const server = await fakeServer(({ method, path }) => {
    const about = ABOUT[path]
    if (method === 'GET') return about === undefined ? undefined : responseOf('llama-server', about)
    if (path === '/completion') return TOKENS
    if (path === '/tokenize') return undefined
    return jsonResponse(200, { as: 'it came' })
  })
  open.push(server)
  return server
}

it.each([
  ['/v1/chat/completions', '{"type":"text","text":"hi"}', '/completion'],
  [
    '/v1/chat/completions',
    '{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}',
    null,
  ],
  ['/v1/chat/completions', '{"type":"input_audio","input_audio":{}}', null],
  ['/v1/messages', '{"type":"image","source":{}}', null],
  ['/v1/messages/count_tokens', '{"type":"image","source":{}}', null],
])('%s with %s', async (path, part, asTokens) => {
  const server = await llamaServer()
  const model = 'models/storyteller/storyteller-q8_0.gguf'
  const gateway = await startGateway([server], { forward: false, model })
  open.push(gateway)
  const name = (
    (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: { id: string }[] }
  ).data[0]?.id
  const body = `{"model":"${name}","max_tokens":1, "messages":[{"role":"user","content":[${part}]}]}`
  const answer = await ask(gateway.port, path, body)
  expect(answer.status).toBe(200)
  const sent = server.seen.filter(
    (request) => request.method === 'POST' && request.path !== '/tokenize',
  )
  expect(sent.map((request) => request.path)).toEqual([asTokens ?? path])
  if (asTokens === null) expect(sent[0]?.body).toBe(body)
})

/** How the rules appear in the SDKs, in front of servers that get every request unchanged. */
describe('media with the SDKs', () => {
  const PNG = `data:image/png;base64,${Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64')}`
  const imageMessage = (url: string) => [
    { role: 'user' as const, content: [{ type: 'image_url' as const, image_url: { url } }] },
  ]

  async function gatewayOf(flags: object = {}) {
    const servers = await Promise.all(
      [0, 1].map(() =>
        engineServer((request) =>
          jsonResponse(
            200,
            request.path === '/v1/messages'
              ? { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'seen' }] }
              : {
                  object: 'chat.completion',
                  choices: [{ index: 0, message: { role: 'assistant', content: 'seen' } }],
                },
          ),
        ),
      ),
    )
    open.push(...servers)
    const gateway = await startGateway(servers, { mediaLimit: 10_000, ...flags })
    open.push(gateway)
    const { url } = gateway
    return {
      servers,
      openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }),
      anthropic: new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 }),
    }
  }

  it('openai - image data is forwarded, an image URL is refused with the name of the field', async () => {
    const { openai, servers } = await gatewayOf()
    const ask = (url: string) =>
      openai.chat.completions.create({ model: 'm', messages: imageMessage(url) })
    expect((await ask(PNG)).choices[0]?.message.content).toBe('seen')
    const param = 'messages[0].content[0].image_url.url'
    for (const url of ['http://169.254.169.254/latest/meta-data', 'https://example.com/a.png']) {
      await expect(ask(url)).rejects.toMatchObject({ status: 400, param })
    }
    await expect(ask('data:image/png;base64,PGh0bWw+')).rejects.toMatchObject({
      status: 400,
      param,
    })
    await expect(ask(`${PNG}${'A'.repeat(20_000)}`)).rejects.toMatchObject({ status: 413, param })
    const responses = openai.responses.create({
      model: 'm',
      input: [
        {
          role: 'user',
          content: [{ type: 'input_image', image_url: 'http://a.b/c.png', detail: 'auto' }],
        },
      ],
    })
    await expect(responses).rejects.toMatchObject({
      status: 400,
      param: 'input[0].content[0].image_url',
    })
    expect(servers.flatMap(({ asked }) => asked)).toHaveLength(1)
  })

  it('anthropic - image data is forwarded, an image URL is refused', async () => {
    const { anthropic, servers } = await gatewayOf()
    const ask = (source: Anthropic.Base64ImageSource | Anthropic.URLImageSource) =>
      anthropic.messages.create({
        model: 'm',
        max_tokens: 5,
        messages: [{ role: 'user', content: [{ type: 'image', source }] }],
      })
    const data = PNG.slice(PNG.indexOf(',') + 1)
    expect((await ask({ type: 'base64', media_type: 'image/png', data })).content).toEqual([
      { type: 'text', text: 'seen' },
    ])
    const refused = ask({ type: 'url', url: 'http://127.0.0.1:9/x.png' })
    await expect(refused).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('`messages[0].content[0].source.url`'),
    })
    expect(servers.flatMap(({ asked }) => asked)).toHaveLength(1)
  })

  it('allowed media hosts - never include this machine', async () => {
    const { openai, servers } = await gatewayOf({ mediaHosts: '*,localhost,127.0.0.1' })
    const [inside] = servers
    for (const url of [`${inside?.url}/v1/models`, 'http://localhost/', 'http://[::1]/']) {
      const refused = openai.chat.completions.create({ model: 'm', messages: imageMessage(url) })
      await expect(refused, url).rejects.toMatchObject({ status: 400 })
    }
    expect(inside?.seen.some(({ headers }) => headers['user-agent'] === 'baton')).toBe(false)
  })

  it('a repeated image - goes to the server that has it cached', async () => {
    const { openai, servers } = await gatewayOf({ mediaLimit: 100_000 })
    const words = 'What do you see? '.repeat(20)
    const image = (fill: string) => `${PNG.slice(0, -2)}${fill.repeat(30_000)}`
    const ask = (url: string) =>
      openai.chat.completions.create({
        model: 'm',
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image_url', image_url: { url } },
              { type: 'text', text: words },
            ],
          },
        ],
      })
    for (let round = 0; round < 6; round++) await ask(image('A'))
    const counts = servers.map(({ asked }) => asked.length)
    expect(counts.toSorted((a, b) => a - b)).toEqual([0, 6])
  })
})
