/** A fleet of processes with discovery over a real nats-server. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { FaultyProxy } from '../faulty-proxy.ts'
import { startBaton } from '../running-server.ts'
import type { RunningBaton } from '../running-server.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

async function start(args: readonly string[], ready: RegExp, url: string): Promise<RunningBaton> {
  const baton = await startBaton(args, ready, { BATON_DISCOVERY: url })
  onTestFinished(async () => {
    baton.process.kill('SIGKILL')
    await baton.ended
  })
  return baton
}

async function startWorker(url: string): Promise<RunningBaton> {
  const sim = ['--engine', 'sim', '--sim-speedup', '0', '--grace-seconds', '0']
  return await start(['worker', ...sim], /ready/, url)
}

async function startFrontend(url: string): Promise<RunningBaton & { readonly url: string }> {
  const args = ['frontend', '--port', '0', '--log-level', 'info']
  const baton = await start(args, /http:\/\/[\d.]+:\d+/, url)
  return { ...baton, url: /http:\/\/[\d.]+:\d+/.exec(baton.printed())?.[0] ?? '' }
}

interface Health {
  readonly status: string
  readonly warnings: readonly string[]
  readonly discovery?: { readonly state: string }
  readonly models: readonly { readonly workers: readonly { readonly pid: number }[] }[]
}

async function healthOf(url: string): Promise<Health> {
  return (await (await fetch(`${url}/health`)).json()) as Health
}

async function pidsOf(url: string): Promise<readonly number[]> {
  const { models } = await healthOf(url)
  return models.flatMap(({ workers }) => workers.map(({ pid }) => pid)).toSorted((a, b) => a - b)
}

async function statusOf(url: string): Promise<number> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once', max_tokens: 2 }),
  })
  await reply.text()
  return reply.status
}

describe.skipIf(NATS_VERSION === null)('a fleet over NATS', () => {
  it('a worker that loses NATS - stays in use while it answers its frontends; /health says so', async () => {
    const server = await NatsServer.start()
    onTestFinished(() => server.close())
    const proxy = await FaultyProxy.start(server.port)
    onTestFinished(() => proxy.close())
    const worker = await startWorker(`nats://127.0.0.1:${proxy.port}`)
    const { url, printed } = await startFrontend(server.url)
    await expect.poll(() => statusOf(url)).toBe(200)
    proxy.cut()
    const warnings = async (): Promise<string> => (await healthOf(url)).warnings.join()
    await expect.poll(warnings).toContain('cannot reach discovery but answers')
    expect(await statusOf(url)).toBe(200)
    expect(printed()).not.toContain('worker is gone')
    proxy.mend()
    await expect.poll(warnings).toBe('')
    proxy.cut()
    await expect.poll(warnings).toContain('cannot reach discovery but answers')
    // A worker that hangs is given up.
    worker.process.kill('SIGSTOP')
    await expect.poll(() => pidsOf(url)).toEqual([])
    expect(printed()).toContain('worker is gone: expired')
  })

  it('two frontends, two workers - keep serving while the server restarts; only /health shows it', async () => {
    const server = await NatsServer.start('authorization { user: baton, password: hush }')
    onTestFinished(() => server.close())
    const meeting = `nats://baton:hush@127.0.0.1:${server.port}`
    const workers = await Promise.all([startWorker(meeting), startWorker(meeting)])
    const frontends = await Promise.all([startFrontend(meeting), startFrontend(meeting)])
    const pids = workers.map(({ process }) => process.pid ?? 0).toSorted((a, b) => a - b)
    for (const { url } of frontends) await expect.poll(() => pidsOf(url)).toEqual(pids)
    await server.kill()
    for (const { url } of frontends) {
      await expect.poll(async () => (await healthOf(url)).discovery?.state).toBe('away')
      expect(await statusOf(url)).toBe(200)
      expect(await pidsOf(url)).toEqual(pids)
    }
    await server.restart()
    for (const { url } of frontends) {
      await expect.poll(async () => (await healthOf(url)).discovery).toBeUndefined()
    }
    const third = await startWorker(meeting)
    const [one, two] = workers
    one?.process.kill('SIGKILL')
    two?.process.kill('SIGTERM')
    for (const { url, printed } of frontends) {
      await expect.poll(() => pidsOf(url)).toEqual([third.process.pid])
      await expect.poll(() => statusOf(url)).toBe(200)
      expect(printed()).not.toContain('hush')
    }
  })
})
