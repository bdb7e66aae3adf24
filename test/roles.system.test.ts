/** `--auto-roles` of several frontends on the same workers. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { FaultyProxy } from './faulty-proxy.ts'
import { NATS_VERSION, NatsServer } from './nats/nats-server.ts'
import { startBaton } from './running-server.ts'
import type { RunningBaton } from './running-server.ts'
import { until } from './until.ts'

const ASKED = /a worker is asked to change its role/
const LEFT = /another frontend or an administrator has just changed a role/
const CHANGES = /the worker drains to change its role/

/** A role must be short for 15 s. */
const DECIDED_MS = 60_000

async function start(args: readonly string[], shows: RegExp): Promise<RunningBaton> {
  const baton = await startBaton(args, shows)
  onTestFinished(() => void baton.process.kill('SIGKILL'))
  return baton
}

async function ask(url: string): Promise<void> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'hi '.repeat(50), max_tokens: 4 }),
  })
  expect(reply.status, await reply.text()).toBe(200)
}

describe.skipIf(NATS_VERSION === null)('--auto-roles of two frontends', () => {
  it('frontends that cannot reach each other see all workers and decide at once - one worker changes', async () => {
    const nats = await NatsServer.start()
    onTestFinished(() => nats.close())
    const sim = ['--discovery', nats.url, '--engine', 'sim']
    await start(['worker', ...sim, '--mode', 'prefill'], /ready/)
    const workers = await Promise.all(
      [1, 2, 3].map(() => start(['worker', ...sim, '--mode', 'auto'], /ready/)),
    )
    const frontends = await Promise.all(
      [1, 2].map(async () => {
        const proxy = await FaultyProxy.start(nats.port)
        onTestFinished(() => proxy.close())
        const where = ['--discovery', `nats://127.0.0.1:${proxy.port}`, '--port', '0']
        // No time to the first token is this short, so prefill is always short.
        const roles = ['--auto-roles', '--ttft-goal', '0.001']
        const baton = await start(['frontend', ...where, ...roles], /http:/)
        const url = /http:\/\/[\d.]+:\d+/.exec(baton.printed())?.[0] ?? ''
        await until('it is ready', async () => (await fetch(`${url}/ready`)).status === 200)
        return { baton, proxy, url }
      }),
    )
    for (const { proxy } of frontends) proxy.cut()
    for (const { url } of frontends) for (let i = 0; i < 3; i++) await ask(url)
    for (const { baton } of frontends)
      await until('the frontend decides', () => ASKED.test(baton.printed()), DECIDED_MS)
    await until('one leaves it to the other', () =>
      frontends.some(({ baton }) => LEFT.test(baton.printed())),
    )
    const changing = (): number => workers.filter(({ printed }) => CHANGES.test(printed())).length
    await expect.poll(changing).toBeGreaterThan(0)
    for (const { url } of frontends) await ask(url)
    expect(changing()).toBe(1)
  })
})
