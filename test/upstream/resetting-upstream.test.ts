/** An upstream that accepts requests and closes the connection before the first byte: a few attempts, and the client hears why. */
import { expect, it, onTestFinished } from 'vitest'
import { engineServer, startGateway } from '../forward/gateway-kit.ts'

it('the only upstream closes before the first byte - is asked less and less often', async () => {
  const server = await engineServer(({ socket }) => {
    socket.destroy()
    return null
  })
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
  expect([response.status, await response.text()]).toEqual([
    503,
    expect.stringContaining('the upstream'),
  ])
  // Each attempt is sent twice.
  expect(server.asked.length).toBeLessThan(18)
}, 30_000)
