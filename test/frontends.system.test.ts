/**
 * Several frontend processes behind one port.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { FaultyProxy } from './faulty-proxy.ts'
import { freePort } from './free-port.ts'
import { isAlive, startBaton, startServer } from './running-server.ts'
import type { RunningBaton, RunningServer } from './running-server.ts'
import { until } from './until.ts'

const SIM = ['--engine', 'sim', '--sim-speedup', '0', '--aggregated', '2']

async function start(args: readonly string[]): Promise<RunningServer> {
  const server = await startServer([...SIM, ...args])
  onTestFinished(async () => {
    if (server.process.exitCode === null) await server.stop()
  })
  return server
}

function frontendPids(server: RunningServer): readonly number[] {
  return (/frontend .* pid ([\d, ]+)/.exec(server.printed())?.[1] ?? '').split(', ').map(Number)
}

/** Each request on its own connection, so that all frontends are reached. */
async function complete(url: string, requestId?: string): Promise<number> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      connection: 'close',
      ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
    },
    body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: 2 }),
  })
  await reply.text()
  return reply.status
}

async function textOf(url: string): Promise<string> {
  return await (await fetch(url, { headers: { connection: 'close' } })).text()
}

function sumOf(metrics: string, name: string): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {}
  for (const [, labels = '', value] of metrics.matchAll(new RegExp(`^${name}{(.*)} (.*)$`, 'gm'))) {
    const frontend = /frontend="(\d+)"/.exec(labels)?.[1] ?? ''
    sums[frontend] = (sums[frontend] ?? 0) + Number(value)
  }
  return sums
}

describe('baton serve --frontends', () => {
  it('several frontends - all frontends serve, metrics are summed, decisions are found from any, a dead one is replaced', async () => {
    const server = await start(['--frontends', '2'])
    const pids = frontendPids(server)
    expect(pids).toHaveLength(2)
    expect(await Promise.all(Array.from({ length: 20 }, () => complete(server.url)))).toEqual(
      Array.from({ length: 20 }, () => 200),
    )
    const sums = sumOf(await textOf(`${server.url}/metrics`), 'baton_frontend_requests_total')
    expect(new Set(Object.keys(sums).map(Number))).toEqual(new Set(pids))
    expect(Object.values(sums).reduce((a, b) => a + b)).toBe(20)
    expect(Math.min(...Object.values(sums))).toBeGreaterThan(0)

    for (let ask = 0; ask < 4; ask++) {
      const fleet = JSON.parse(await textOf(`${server.url}/debug/fleet`)) as {
        frontends: number
        sums: { received: number }
      }
      expect([fleet.frontends, fleet.sums.received]).toEqual([2, 20])
      const { requests } = JSON.parse(await textOf(`${server.url}/debug/requests`)) as {
        requests: readonly object[]
      }
      expect(requests).toHaveLength(20)
    }

    expect(await complete(server.url, 'known-to-one')).toBe(200)
    for (let ask = 0; ask < 4; ask++) {
      const explained = JSON.parse(await textOf(`${server.url}/debug/requests/known-to-one`)) as {
        request_id: string
      }
      expect(explained.request_id).toBe('known-to-one')
    }
    expect(await textOf(`${server.url}/debug/requests/known-to-nobody`)).toContain('not known')

    process.kill(pids[0] ?? 0, 'SIGKILL')
    await expect.poll(() => server.printed()).toContain('a frontend was started again')
    await expect
      .poll(async () => {
        const told = sumOf(await textOf(`${server.url}/metrics`), 'baton_frontend_event_loop.*')
        return [Object.keys(told).length, String(pids[0]) in told]
      })
      .toEqual([2, false])
    expect(await complete(server.url)).toBe(200)
  })

  it('SIGTERM - open streams complete, then no process is left', async () => {
    const server = await start(['--frontends', '2', '--sim-speedup', '1'])
    const streams = Array.from({ length: 6 }, async () => {
      const reply = await fetch(`${server.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', connection: 'close' },
        body: JSON.stringify({ prompt: 'Once', max_tokens: 100, stream: true, ignore_eos: true }),
      })
      return { started: reply.status, text: reply.text() }
    })
    const started = await Promise.all(streams)
    const ended = server.stop()
    for (const { started: status, text } of started) {
      expect([status, (await text).endsWith('data: [DONE]\n\n')]).toEqual([200, true])
    }
    expect(await ended).toBe(0)
    for (const pid of frontendPids(server)) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })

  it('a session - goes to one worker, whichever frontend is asked', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-router-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'router.yaml')
    writeFileSync(file, JSON.stringify({ mode: 'round-robin', session: { ttlSeconds: 60 } }))
    const server = await start(['--frontends', '2', '--router-config', file])
    const ask = async (session: string): Promise<number> => {
      const reply = await fetch(`${server.url}/v1/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          connection: 'close',
          'x-dynamo-session-id': session,
        },
        body: JSON.stringify({
          prompt: 'Once',
          max_tokens: 2,
          nvext: { extra_fields: ['worker_id'] },
        }),
      })
      const { nvext } = (await reply.json()) as {
        nvext: { worker_id: { decode_worker_id: number } }
      }
      return nvext.worker_id.decode_worker_id
    }
    for (const session of ['a', 'b', 'c', 'd']) {
      const bound = await ask(session)
      for (let more = 0; more < 6; more++) expect(await ask(session)).toBe(bound)
    }
  })

  it('a second Ctrl-C - open streams of all frontends get an error event, no process is left', async () => {
    const server = await startServer([
      '--engine',
      'sim',
      '--frontends',
      '2',
      '--sim-speedup',
      '0.1',
    ])
    const pids = frontendPids(server)
    const replies = await Promise.all(
      Array.from({ length: 8 }, () =>
        fetch(`${server.url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', connection: 'close' },
          body: JSON.stringify({
            prompt: 'Once',
            max_tokens: 1000,
            ignore_eos: true,
            stream: true,
          }),
        }),
      ),
    )
    const ended = new Promise((resolve) => server.process.once('close', resolve))
    server.process.kill('SIGINT')
    await until('it drains', () => server.printed().includes('draining'))
    // Signals within a short time after the first count as the same.
    const presses = setInterval(() => server.process.kill('SIGINT'), 100)
    onTestFinished(() => clearInterval(presses))
    expect(await ended).toBe(70)
    for (const reply of replies) {
      expect(await reply.text()).toMatch(/\ndata: \{"error":[^\n]*shut down[^\n]*\n/)
    }
    await until('no process is left', () => ![...pids, ...server.workerPids].some(isAlive))
  })

  it('a port in use - is reported in one line and no process is left', async () => {
    const first = await start(['--frontends', '2'])
    await expect(
      startServer([...SIM, '--frontends', '2', '--port', String(first.port)]),
    ).rejects.toThrow(/in use|is taken/)
  })
})

describe('a frontend that joins a running fleet', () => {
  async function startMember(args: readonly string[], ready: RegExp): Promise<RunningBaton> {
    const member = await startBaton(args, ready)
    onTestFinished(async () => {
      member.process.kill('SIGKILL')
      await member.ended
    })
    return member
  }

  it('readiness - starts when every discovered worker has reported its model', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-late-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const place = ['--discovery', `file:${folder}`]
    const sim = ['worker', ...place, '--engine', 'sim']
    const slowPort = await freePort()
    const proxy = await FaultyProxy.start(slowPort)
    onTestFinished(() => proxy.close())
    const slow = ['--worker-port', String(slowPort)]
    slow.push('--worker-advertise', `127.0.0.1:${proxy.port}`)
    await Promise.all([startMember(sim, /ready/), startMember([...sim, ...slow], /ready/)])
    proxy.hold()
    const args = ['frontend', ...place, '--port', '0', '--log-level', 'info']
    const late = await startMember(args, /http:/)
    await until('one is connected', () => late.printed().includes('worker connected'))
    const url = /http:\/\/[\d.]+:\d+/.exec(late.printed())?.[0] ?? ''
    const early = await fetch(`${url}/ready`)
    expect([early.status, await early.json()]).toEqual([
      503,
      { ready: false, reason: expect.stringMatching(/^joining: [01] of 2 workers/) as unknown },
    ])
    expect(await complete(url)).toBe(200)
    proxy.letGo()
    await until('it is ready', async () => (await fetch(`${url}/ready`)).status === 200)
    const health = JSON.parse(await textOf(`${url}/health`)) as {
      models: readonly { workers: readonly object[] }[]
    }
    expect(health.models[0]?.workers).toHaveLength(2)
    late.process.kill('SIGTERM')
    expect(await late.ended).toBe(0)
    // The workers are not at fault when the frontend itself shuts down.
    expect(late.printed()).not.toContain('"level":40')
  })
})
