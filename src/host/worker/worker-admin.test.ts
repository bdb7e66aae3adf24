import { get } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { SimEngine } from '../../simengine/index.ts'
import { RecordedReply } from '../../../test/worker/recorded-reply.ts'
import { MemoryDiscovery } from '../../discovery/memory-discovery.ts'
import { HostedWorker } from './hosted-worker.ts'
import { osClock } from '../../os/os-clock.ts'
import { LocalRequestPlane } from '../../network/plane/local-request-plane.ts'

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function startWorker(
  admin: { host: string; token?: string } = { host: '127.0.0.1', token: 'secret' },
): Promise<{ hosted: HostedWorker; discovery: MemoryDiscovery }> {
  const discovery = new MemoryDiscovery()
  const hosted = new HostedWorker({
    engine: new SimEngine({ clock: osClock, model: 'sim' }),
    engineName: 'sim',
    mode: 'agg',
    plane: { kind: 'local', plane: new LocalRequestPlane() },
    discovery,
    version: '0.0.0',
    shutdown: { routerGraceMs: 0 },
    admin: { port: 0, ...admin },
  })
  ends.push(() => hosted.stop())
  await hosted.start()
  return { hosted, discovery }
}

interface Answer {
  readonly status: number
  readonly body: unknown
}

async function call(
  hosted: HostedWorker,
  method: string,
  path: string,
  { token = 'secret', body }: { token?: string | null; body?: string } = {},
): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${hosted.adminPort}${path}`, {
    method,
    ...(token === null ? {} : { headers: { authorization: `Bearer ${token}` } }),
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json'
  return { status: response.status, body: isJson ? JSON.parse(text) : text }
}

describe('worker admin - health', () => {
  it('a running worker - is live and ready, without a token', async () => {
    const { hosted } = await startWorker()
    expect(await call(hosted, 'GET', '/live', { token: null })).toMatchObject({ status: 200 })
    expect(await call(hosted, 'GET', '/health', { token: null })).toMatchObject({
      status: 200,
      body: { ready: true, state: 'running', inFlight: 0 },
    })
  })

  it('metrics - count requests by how they ended', async () => {
    const { hosted } = await startWorker()
    const reply = new RecordedReply()
    hosted.worker.serve(
      {
        requestId: 'a',
        model: 'sim',
        tokenIds: Uint32Array.of(1, 2, 3),
        sampling: {},
        stop: { maxTokens: 2 },
        output: {},
        eosTokenIds: [],
        routing: {},
      },
      reply,
    )
    await reply.ended
    const { body } = await call(hosted, 'GET', '/metrics', { token: null })
    expect(body).toMatch(
      /baton_worker_requests_total\{outcome="length",worker_id="\d+",mode="agg"\} 1/,
    )
    expect(body).toMatch(/baton_worker_ready\{.*\} 1/)
    expect(body).toMatch(/^baton_engine_kv_blocks\{dp_rank="0",worker_id="\d+",mode="agg"\} \d+$/m)
    const open = (await hosted.metrics.page('application/openmetrics-text')).body
    expect(open).toMatch(/^# TYPE baton_worker_requests counter\nbaton_worker_requests_total\{/m)
    expect(open).toMatch(/^baton_engine_kv_blocks\{.*\} \d+\n(.*\n)*# EOF\n$/m)
  })
})

describe('worker admin - commands', () => {
  it('drain and resume - answer with the status, discovery follows', async () => {
    const { hosted, discovery } = await startWorker()
    const { cards } = await discovery.watch({ joined: () => undefined, left: () => undefined })
    expect(cards.size).toBe(1)
    const drained = await call(hosted, 'POST', '/engine/drain')
    expect(drained).toMatchObject({ status: 200, body: { isRegistered: false } })
    expect(cards.size).toBe(0)
    expect((await call(hosted, 'GET', '/health')).status).toBe(503)
    expect((await call(hosted, 'GET', '/live')).status).toBe(200)
    expect(await call(hosted, 'POST', '/engine/resume')).toMatchObject({
      status: 200,
      body: { state: 'serving', isRegistered: true },
    })
    expect(cards.size).toBe(1)
  })

  it('a control of the engine - is called with its body', async () => {
    const { hosted } = await startWorker()
    const path = '/engine/control/clear_kv_blocks'
    expect(await call(hosted, 'POST', path)).toEqual({ status: 200, body: { status: 'ok' } })
    expect((await call(hosted, 'POST', path, { body: '[1]' })).status).toBe(400)
    expect((await call(hosted, 'POST', path, { body: '{' })).status).toBe(400)
    expect((await call(hosted, 'POST', '/engine/control/constructor')).status).toBe(404)
  })

  it.each([
    ['GET', '/engine/status'],
    ['POST', '/engine/drain'],
    ['POST', '/engine/resume'],
    ['POST', '/engine/control/clear_kv_blocks'],
  ])('%s %s - needs the token', async (method, path) => {
    const { hosted } = await startWorker()
    for (const token of [null, 'wrong', 'secret ', 'secre']) {
      const { status } = await call(hosted, method, path, { token })
      // Trailing white space is not part of a header's value.
      expect(status).toBe(token === 'secret ' ? 200 : 401)
    }
  })

  it('unknown paths and methods - are reported', async () => {
    const { hosted } = await startWorker()
    expect((await call(hosted, 'GET', '/nothing')).status).toBe(404)
    expect((await call(hosted, 'GET', '/engine/drain')).status).toBe(405)
    expect((await call(hosted, 'POST', '/engine/nothing')).status).toBe(404)
  })

  it('without a token - only on the loopback address', async () => {
    const { hosted } = await startWorker({ host: '127.0.0.1' })
    expect((await call(hosted, 'GET', '/engine/status', { token: null })).status).toBe(200)
    await expect(startWorker({ host: '0.0.0.0' })).rejects.toMatchObject({ code: 'config.invalid' })
  })

  it.each([
    ['a web page', { origin: 'https://evil.example' }],
    ['a page of this machine', { origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' }],
  ])('without a token - %s may do nothing', async (_, headers) => {
    const { hosted } = await startWorker({ host: '127.0.0.1' })
    const post = (more: Record<string, string>) =>
      fetch(`http://127.0.0.1:${hosted.adminPort}/engine/drain`, { method: 'POST', headers: more })
    expect((await post(headers)).status).toBe(403)
    expect(hosted.worker.status().isRegistered).toBe(true)
    expect((await post({})).status).toBe(200)
  })

  it('without a token - a name that resolves to this machine is refused', async () => {
    const { hosted } = await startWorker({ host: '127.0.0.1' })
    const statusFor = (host: string) =>
      new Promise((resolve, reject) => {
        get({ host: '127.0.0.1', port: hosted.adminPort, path: '/metrics', headers: { host } })
          .on('response', (reply) => resolve(reply.resume().statusCode))
          .on('error', reject)
      })
    expect([await statusFor('evil.example'), await statusFor('localhost')]).toEqual([403, 200])
  })
})
