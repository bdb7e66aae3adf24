/** Without `--forward`: tokens where there is a form in tokens, and the client's own bytes where there is none. */
import { afterEach, expect, it } from 'vitest'
import { eventResponse, fakeServer, jsonResponse, responseOf } from '../upstream/transcripts.ts'
import type { FakeServer } from '../upstream/transcripts.ts'
import { ask, startGateway } from './gateway-kit.ts'

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
  ['/v1/chat/completions', '{"type":"image_url","image_url":{"url":"data:,x"}}', null],
  ['/v1/chat/completions', '{"type":"input_audio","input_audio":{}}', null],
  ['/v1/messages', '{"type":"image","source":{}}', null],
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
