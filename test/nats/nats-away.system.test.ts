/**
 * Processes that are started while NATS is away or mistyped: they say so, end when they are told to, and join when it comes.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from '../free-port.ts'
import { runBaton, startBaton } from '../running-server.ts'
import type { RunningBaton } from '../running-server.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

const WORKER = ['worker', '--engine', 'sim', '--grace-seconds', '0']
const FRONTEND = ['frontend', '--port', '0']

/** Resolves when it has said that it waits. */
async function start(args: readonly string[], nats: string): Promise<RunningBaton> {
  const baton = await startBaton([...args, '--discovery', nats], /^/)
  onTestFinished(() => void baton.process.kill('SIGKILL'))
  await expect.poll(baton.printed).toMatch(/refused/i)
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

  it.skipIf(NATS_VERSION === null)(
    'a server that accepts connections and does not answer - frontends that connect again end on SIGTERM',
    async () => {
      const server = await NatsServer.start()
      onTestFinished(() => server.close())
      const frontends = await Promise.all(
        [1, 2, 3].map(() => startBaton([...FRONTEND, '--discovery', server.url], /http:/)),
      )
      for (const { process } of frontends) onTestFinished(() => void process.kill('SIGKILL'))
      server.suspend()
      onTestFinished(() => server.resume())
      for (const { printed } of frontends) {
        await expect.poll(printed).toContain('discovery is unreachable')
      }
      for (const { process } of frontends) process.kill('SIGTERM')
      expect(await Promise.all(frontends.map(({ ended }) => ended))).toEqual([0, 0, 0])
    },
  )

  it.skipIf(NATS_VERSION === null)(
    'credentials that cannot be read as such - one sentence and an exit code',
    async () => {
      const server = await NatsServer.start()
      onTestFinished(() => server.close())
      const creds = fileURLToPath(import.meta.url)
      for (const args of [FRONTEND, WORKER]) {
        const { exitCode, printed } = await runBaton([
          ...args,
          '--discovery',
          `${server.url}?creds=${creds}`,
        ])
        expect([exitCode, printed]).toEqual([2, expect.stringContaining('credentials')])
      }
    },
  )

  it.skipIf(NATS_VERSION === null)(
    'a NATS server without JetStream - the log says so; SIGTERM ends it at once',
    async () => {
      const port = await freePort()
      const nats = spawn('nats-server', ['-a', '127.0.0.1', '-p', String(port)], {
        stdio: 'ignore',
      })
      onTestFinished(() => void nats.kill('SIGKILL'))
      for (const args of [FRONTEND, WORKER]) {
        const where = ['--discovery', `nats://127.0.0.1:${port}`]
        const baton = await startBaton([...args, ...where], /^/)
        onTestFinished(() => void baton.process.kill('SIGKILL'))
        await expect.poll(baton.printed).toContain('jetstream is not enabled')
        baton.process.kill('SIGTERM')
        expect(await baton.ended).toBe(0)
      }
    },
  )

  it.skipIf(NATS_VERSION === null)('they meet when the server starts', async () => {
    const server = await NatsServer.start()
    onTestFinished(() => server.close())
    await server.kill()
    const worker = await start(WORKER, server.url)
    const frontend = await start(FRONTEND, server.url)
    await server.restart()
    await expect.poll(worker.printed).toContain('"ready"')
    await expect.poll(frontend.printed).toContain('discovery is reachable again')
    await expect.poll(frontend.printed).toMatch(/http:\/\/[\d.]+:\d+/)
    const url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
    await expect.poll(async () => (await fetch(`${url}/ready`)).status).toBe(200)
  })
})
