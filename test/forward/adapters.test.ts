/** Forward mode in front of servers with LoRA adapters: the model name that a server gets. */
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../until.ts'
import { fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { FakeServer } from '../upstream/transcripts.ts'
import { ask, startGateway } from './gateway-kit.ts'
import type { Gateway } from './gateway-kit.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

const CHAT = '/v1/chat/completions'

async function vllm(adapters: readonly string[]): Promise<FakeServer> {
  const base = { id: 'm', owned_by: 'vllm' }
  return await serverOf([base, ...adapters.map((id) => ({ id, owned_by: 'vllm', parent: 'm' }))])
}

async function serverOf(data: readonly object[]): Promise<FakeServer> {
  const about: Readonly<Record<string, unknown>> = { '/health': {}, '/v1/models': { data } }
  const fake = await fakeServer(({ method, path }) => {
    if (path === '/metrics') return 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
    if (method === 'GET') return jsonResponse(path in about ? 200 : 404, about[path] ?? {})
    return path === CHAT
      ? jsonResponse(200, { choices: [{ message: { content: 'hi' } }] })
      : jsonResponse(404, {})
  })
  open.push(fake)
  return fake
}

async function gatewayOf(
  servers: readonly FakeServer[],
  flags: Readonly<Record<string, unknown>> = {},
  kind = 'vllm',
): Promise<Gateway> {
  const upstream = servers.map(({ url }) => `${kind}+${url}`).join(',')
  const gateway = await startGateway([], { upstream, ...flags })
  open.push(gateway)
  return gateway
}

const modelsAskedOf = ({ seen }: FakeServer): unknown[] =>
  seen.filter(({ path }) => path === CHAT).map(({ body }) => JSON.parse(body).model)

/** A worker that starts asks its server for its version. */
const startsOf = ({ seen }: FakeServer): number =>
  seen.filter(({ path }) => path === '/version' || path === '/props').length

describe('adapters that servers load and unload while they run', () => {
  it('requests follow them, and no worker starts again', async () => {
    const data: object[][] = [[{ id: 'm', owned_by: 'vllm' }], [{ id: 'm', owned_by: 'vllm' }]]
    const poet = { id: 'poet', owned_by: 'vllm', parent: 'm' }
    const servers = [await serverOf(data[0] ?? []), await serverOf(data[1] ?? [])]
    const gateway = await gatewayOf(servers, { modelForgetSeconds: '1' })
    const statusOf = async (): Promise<number> =>
      (await ask(gateway.port, CHAT, '{"model":"poet"}')).status
    const modelsOf = async (): Promise<string> =>
      await (await fetch(`${gateway.url}/v1/models`)).text()
    expect(await statusOf()).toBe(404)
    const started = servers.map(startsOf)

    data[0]?.push(poet)
    await until('it is served', async () => (await statusOf()) === 200)
    expect(await modelsOf()).toContain('poet')
    data[0]?.pop()
    data[1]?.push(poet)
    await until('it is served there', async () => {
      await statusOf()
      return modelsAskedOf(servers[1] as FakeServer).length > 0
    })
    data[1]?.pop()
    await until('it is forgotten', async () => (await statusOf()) === 404)
    expect(await modelsOf()).not.toContain('poet')
    expect(servers.map(startsOf)).toEqual(started)
  })
})

describe('adapters in forward mode', () => {
  it('an adapter that only one of the servers has - is requested there by its name', async () => {
    for (const at of [0, 1]) {
      const servers = [await vllm(at === 0 ? ['poet'] : []), await vllm(at === 1 ? ['poet'] : [])]
      const gateway = await gatewayOf(servers)
      for (let i = 0; i < 4; i++) {
        expect((await ask(gateway.port, CHAT, '{"model":"poet"}')).status).toBe(200)
      }
      expect(servers.flatMap(modelsAskedOf)).toEqual(Array.from({ length: 4 }, () => 'poet'))
      expect(modelsAskedOf(servers[at] as FakeServer)).toHaveLength(4)
    }
  })

  it("an adapter with the model's name at the gateway - the model is requested by its name at the server", async () => {
    const servers = [await vllm([]), await vllm(['mine'])]
    const gateway = await gatewayOf(servers, { servedModelName: 'mine' })
    for (let i = 0; i < 4; i++) {
      expect((await ask(gateway.port, CHAT, '{"model":"mine"}')).status).toBe(200)
    }
    expect(servers.flatMap(modelsAskedOf)).toEqual(Array.from({ length: 4 }, () => 'm'))
  })

  it('a server whose models name what they were trained from, which it does not list - serves them by their names', async () => {
    for (const parent of ['elsewhere/base', '']) {
      const server = await serverOf([
        { id: 'tuned', parent },
        { id: 'other', parent },
      ])
      const gateway = await gatewayOf([server], {}, 'openai')
      const names = ['tuned', 'other']
      for (const model of names) {
        expect((await ask(gateway.port, CHAT, JSON.stringify({ model }))).status).toBe(200)
      }
      expect(modelsAskedOf(server)).toEqual(names)
    }
  })

  it("SGLang, which answers an adapter's name with the base model - gets the adapter in its own field", async () => {
    const server = await serverOf([
      { id: 'm', owned_by: 'sglang', parent: null },
      { id: 'poet', owned_by: 'sglang', parent: 'm' },
    ])
    const gateway = await gatewayOf([server], {}, 'sglang')
    for (const model of ['poet', 'm']) {
      expect((await ask(gateway.port, CHAT, JSON.stringify({ model }))).status).toBe(200)
    }
    const bodies = server.seen.filter(({ path }) => path === CHAT).map(({ body }) => body)
    expect(bodies).toEqual(['{"model":"poet","lora_path":"poet"}', '{"model":"m"}'])
    for (const path of ['/v1/responses', '/v1/messages', '/rerank']) {
      const refused = await ask(gateway.port, path, '{"model":"poet"}')
      expect([path, refused.status]).toEqual([path, 400])
      expect(refused.body.toString()).toContain('base model')
    }
    const asked = server.seen.filter(({ method }) => method === 'POST').map(({ path }) => path)
    expect(asked).toEqual([CHAT, CHAT])
  })
})
