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

async function startFrontend(
  url: string,
  more: readonly string[] = [],
): Promise<RunningBaton & { readonly url: string }> {
  const args = ['frontend', '--port', '0', '--log-level', 'info', ...more]
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

/** The requests that the frontend believes to be at its workers. */
async function activeOf(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  const counts = metrics.matchAll(/^baton_frontend_worker_active_requests\{.*\} (\d+)$/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

async function statusOf(url: string, prompt: string | readonly number[] = 'Once'): Promise<number> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 2 }),
  })
  await reply.text()
  return reply.status
}

describe.skipIf(NATS_VERSION === null)('a fleet over NATS', () => {
  it('a prompt of which the server does not take the message to other frontends - is answered; the log says so', async () => {
    // Enough for a card, and not for the hashes of 200 blocks.
    const server = await NatsServer.start('max_payload: 3072')
    onTestFinished(() => server.close())
    await startWorker(server.url)
    const unreported = ['--router-kv-events', 'false']
    const { url, printed } = await startFrontend(server.url, unreported)
    await expect.poll(() => statusOf(url)).toBe(200)
    const prompt = Array.from({ length: 3_500 }, (_, at) => 5 + (at % 900))
    expect(await statusOf(url, prompt)).toBe(200)
    await expect.poll(printed).toContain('max_payload')
    await expect.poll(() => activeOf(url)).toBe(0)
  })

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
