/** Forward mode: engines that should get no new requests while one is still running. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { FakeServer } from '../upstream/transcripts.ts'
import { until } from '../until.ts'
import { ask } from './gateway-kit.ts'
import type { Gateway, RawAnswer } from './gateway-kit.ts'
import { ASK, CHAT, STREAM_HEAD, chunk, closeAfterwards, gatewayOf } from './faulty-engines.ts'

const FAILS = jsonResponse(500, { detail: 'busy' })

/** An engine whose streams begin and stay open. */
async function streaming(streams: Socket[], isHealthy = () => true): Promise<FakeServer> {
  const server = await fakeServer((request) => {
    if (request.path === '/v1/models') return jsonResponse(200, { data: [{ id: 'm' }] })
    if (request.path === '/health') return isHealthy() ? jsonResponse(200, {}) : FAILS
    if (request.method === 'GET') return undefined
    streams.push(request.socket)
    request.socket.write(STREAM_HEAD + chunk('data: {"a":1}\n\n'))
    return null
  })
  closeAfterwards(server)
  return server
}

function finish(stream: Socket | undefined): void {
  stream?.write(`${chunk('data: [DONE]\n\n')}0\r\n\r\n`)
}

async function healthOf(gateway: Gateway): Promise<string> {
  return await (await fetch(`${gateway.url}/health`)).text()
}

describe('an engine that is leaving', () => {
  it('its health checks fail - its stream continues and new requests go elsewhere until it answers again', async () => {
    let isHealthy = true
    const [atBusy, atOther]: [Socket[], Socket[]] = [[], []]
    const busy = await streaming(atBusy, () => isHealthy)
    const other = await streaming(atOther)
    const gateway = await gatewayOf([busy, other])
    const asked: Promise<RawAnswer>[] = []
    while (atBusy.length === 0) {
      asked.push(ask(gateway.port, CHAT, ASK))
      await until('the request has arrived', () => atBusy.length + atOther.length === asked.length)
    }
    isHealthy = false
    const warning = /gets no new requests until it answers: the engine answers 500/
    await until('/health has a warning', async () => warning.test(await healthOf(gateway)))
    const before = atOther.length
    for (let count = 0; count < 3; count++) asked.push(ask(gateway.port, CHAT, ASK))
    await until('the requests have arrived', () => atOther.length === before + 3)
    expect(atBusy).toHaveLength(1)
    isHealthy = true
    await until('/health has no warning', async () => !warning.test(await healthOf(gateway)))
    for (const stream of [...atBusy, ...atOther]) finish(stream)
    for (const { status, isCutOff, body } of await Promise.all(asked)) {
      expect([status, isCutOff]).toEqual([200, false])
      expect(body.toString()).toBe('data: {"a":1}\n\ndata: [DONE]\n\n')
    }
  })

  it('it is removed from the configuration - its stream completes', async () => {
    const [atFirst, atOther]: [Socket[], Socket[]] = [[], []]
    const first = await streaming(atFirst)
    const other = await streaming(atOther)
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-named-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const upstreamFile = path.join(folder, 'upstreams.txt')
    writeFileSync(upstreamFile, `- ${first.url}\n`)
    const gateway = await gatewayOf([], { upstreamFile, upstream: undefined })
    const stream = ask(gateway.port, CHAT, ASK)
    await until('it streams', () => atFirst.length === 1)
    writeFileSync(upstreamFile, `- ${other.url}\n`)
    await until('the other one serves', async () => {
      const health = await healthOf(gateway)
      return health.includes(other.url) && !health.includes(first.url)
    })
    const second = ask(gateway.port, CHAT, ASK)
    await until('it is asked', () => atOther.length === 1)
    finish(atFirst[0])
    finish(atOther[0])
    for (const { body } of [await stream, await second]) {
      expect(body.toString()).toBe('data: {"a":1}\n\ndata: [DONE]\n\n')
    }
  })
})
