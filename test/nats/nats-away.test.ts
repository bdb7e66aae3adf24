/**
 * Processes that are started while NATS is away or mistyped: they say so, end when they are told to, and join when it comes.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from '../free-port.ts'
import { startBaton } from '../running-server.ts'
import type { RunningBaton } from '../running-server.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

const WORKER = ['worker', '--engine', 'sim', '--grace-seconds', '0']
const FRONTEND = ['frontend', '--port', '0']

const SOON = { timeout: 20_000 }

/** Resolves when it has said that it waits. */
async function start(args: readonly string[], nats: string): Promise<RunningBaton> {
  const baton = await startBaton([...args, '--discovery', nats], /^/)
  onTestFinished(() => void baton.process.kill('SIGKILL'))
  await expect.poll(baton.printed, SOON).toMatch(/refused/i)
  return baton
}

describe('NATS is away at the start', () => {
  it.each([
    ['a frontend', FRONTEND],
    ['several frontends', [...FRONTEND, '--frontends', '2']],
    ['a worker', WORKER],
  ])('%s - the log says why it waits; SIGTERM ends it', async (_, args) => {
    const baton = await start(args, `nats://127.0.0.1:${await freePort()}`)
    baton.process.kill('SIGTERM')
    expect(await baton.ended).toBe(0)
    expect(baton.printed()).not.toContain('internal error')
  })

  it.skipIf(NATS_VERSION === null)('they meet when it comes', async () => {
    const server = await NatsServer.start()
    onTestFinished(() => server.close())
    await server.kill()
    const worker = await start(WORKER, server.url)
    const frontend = await start(FRONTEND, server.url)
    await server.restart()
    await expect.poll(worker.printed, SOON).toContain('"ready"')
    await expect.poll(frontend.printed, SOON).toContain('discovery is reachable again')
    await expect.poll(frontend.printed, SOON).toMatch(/http:\/\/[\d.]+:\d+/)
    const url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
    await expect.poll(async () => (await fetch(`${url}/ready`)).status, SOON).toBe(200)
  })
})
