/** Endpoints that the adapters of tokens do not have: in front of an upstream they are the server's own. */
import { expect, it, onTestFinished } from 'vitest'
import { engineServer, startGateway } from '../forward/gateway-kit.ts'
import { jsonResponse } from './transcripts.ts'

it.each(['/v1/embeddings', '/v1/rerank', '/v1/score'])(
  '%s - is returned unchanged',
  async (path) => {
    const server = await engineServer(() => jsonResponse(200, { said: 'by the engine' }))
    const flags = { forward: false, model: 'models/storyteller', servedModelName: 'm' }
    const gateway = await startGateway([{ url: `openai+${server.url}` }], flags)
    onTestFinished(async () => {
      await gateway.close()
      await server.close()
    })
    const body = '{"model":"m", "input":["a"],"an_engine_field":1.50}'
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    expect([response.status, await response.json()]).toEqual([200, { said: 'by the engine' }])
    expect(server.asked.map((request) => [request.path, request.body])).toEqual([[path, body]])
  },
)
