/**
 * Several workers with one model name: how a worker that differs or cannot be reached appears to clients and
 * operators.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'
import { startBaton } from './running-server.ts'
import type { RunningBaton } from './running-server.ts'

const tls = (name: string): string =>
  fileURLToPath(new URL(`fixtures/tls/${name}`, import.meta.url))

function fleetFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-fleet-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function start(
  args: readonly string[],
  ready: RegExp,
  environment: NodeJS.ProcessEnv = {},
): Promise<RunningBaton> {
  const baton = await startBaton(args, ready, environment)
  onTestFinished(async () => {
    baton.process.kill('SIGKILL')
    await baton.ended
  })
  return baton
}

function startWorker(
  folder: string,
  args: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
  discovery = `file:${folder}`,
): Promise<RunningBaton> {
  const sim = ['--engine', 'sim', '--sim-speedup', '0', '--grace-seconds', '0']
  return start(['worker', '--discovery', discovery, ...sim, ...args], /ready/, environment)
}

async function startFrontend(
  folder: string,
  args: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
): Promise<RunningBaton & { readonly url: string }> {
  const where = folder === '' ? [] : ['--discovery', `file:${folder}`]
  const fixed = [...where, '--port', '0', '--log-level', 'info']
  const frontend = await start(['frontend', ...fixed, ...args], /http:\/\/[\d.]+:\d+/, environment)
  return { ...frontend, url: /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? '' }
}

interface Health {
  readonly status: string
  readonly message: string
  readonly warnings: readonly string[]
  readonly models: readonly {
    readonly workers: readonly { readonly worker_id: number; readonly pid: number }[]
    readonly refused?: readonly { readonly pid: number }[]
  }[]
}

async function healthOf(url: string): Promise<Health> {
  return (await (await fetch(`${url}/health`)).json()) as Health
}

function complete(url: string, body: object = {}): Promise<Response> {
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once', max_tokens: 2, ...body }),
  })
}

describe('baton worker - differs from the other workers of its model', () => {
  it('a differing worker - gets no requests, logs and /health name the field, and it takes over when the others have left', async () => {
    const folder = fleetFolder()
    const first = await startWorker(folder)
    const { url, printed } = await startFrontend(folder)
    await expect.poll(async () => (await healthOf(url)).status).toBe('healthy')
    const other = await startWorker(folder, ['--sim-block-size', '32'])
    await expect
      .poll(async () => (await healthOf(url)).models[0]?.refused?.map(({ pid }) => pid))
      .toEqual([other.process.pid])
    const health = await healthOf(url)
    expect(health.models[0]?.workers.map(({ pid }) => pid)).toEqual([first.process.pid])
    expect(health.warnings.join()).toContain('block size 32 instead of 16')
    await expect.poll(printed).toContain('block size 32 instead of 16')
    await expect.poll(other.printed).toContain('block size 32 instead of 16')
    first.process.kill('SIGTERM')
    await expect
      .poll(async () => (await healthOf(url)).models[0]?.workers.map(({ pid }) => pid))
      .toEqual([other.process.pid])
    await expect.poll(async () => (await complete(url)).status).toBe(200)
  })
})

describe('baton frontend - several, started at different times', () => {
  it('one odd worker that was first, then two others - all frontends serve the two', async () => {
    const folder = fleetFolder()
    const odd = await startWorker(folder, ['--sim-block-size', '32'])
    const early = await startFrontend(folder, ['--model-forget-seconds', '0.5'])
    await expect.poll(async () => (await healthOf(early.url)).status).toBe('healthy')
    const others = await Promise.all([startWorker(folder), startWorker(folder)])
    const pids = others.map(({ process }) => process.pid ?? 0).toSorted((a, b) => a - b)
    const late = await startFrontend(folder, ['--model-forget-seconds', '3600'])
    for (const { url } of [early, late]) {
      await expect
        .poll(async () =>
          (await healthOf(url)).models[0]?.workers.map(({ pid }) => pid).toSorted((a, b) => a - b),
        )
        .toEqual(pids)
      expect((await healthOf(url)).models[0]?.refused?.map(({ pid }) => pid)).toEqual([
        odd.process.pid,
      ])
      expect((await complete(url)).status).toBe(200)
    }
    await expect.poll(odd.printed).toContain('block size 32 instead of 16')
  })
})

describe('baton frontend - workers found by their addresses', () => {
  it('static discovery - asks each worker for its card over authenticated connections; draining or dead workers leave', async () => {
    const secret = { BATON_WIRE_SECRET: 'one' }
    const ports = [await freePort(), await freePort()]
    const workers = await Promise.all(
      ports.map((port) =>
        startWorker('', ['--worker-port', String(port)], secret, 'static:127.0.0.1:1'),
      ),
    )
    const where = `static:${ports.map((port) => `127.0.0.1:${port}`).join()}`
    const { url } = await startFrontend('', [], { ...secret, BATON_DISCOVERY: where })
    const pids = async () =>
      (await healthOf(url)).models
        .flatMap((model) => model.workers.map(({ pid }) => pid))
        .toSorted((a, b) => a - b)
    await expect
      .poll(pids)
      .toEqual(workers.map(({ process }) => process.pid ?? 0).toSorted((a, b) => a - b))
    expect((await complete(url)).status).toBe(200)
    workers[0]?.process.kill('SIGTERM')
    await expect.poll(pids).toEqual([workers[1]?.process.pid])
    workers[1]?.process.kill('SIGKILL')
    await expect.poll(async () => (await healthOf(url)).status).toBe('not_ready')
  })
})

describe('baton frontend - another worker at the address of the only one', () => {
  it('static discovery, another context - it serves at once, not after --model-forget-seconds', async () => {
    const port = String(await freePort())
    const start = (context: string) =>
      startWorker(
        '',
        ['--worker-port', port, '--context-length', context],
        {},
        'static:127.0.0.1:1',
      )
    const first = await start('512')
    const forever = ['--model-forget-seconds', '3600']
    const where = { BATON_DISCOVERY: `static:127.0.0.1:${port}` }
    const { url } = await startFrontend('', forever, where)
    await expect.poll(async () => (await healthOf(url)).status).toBe('healthy')
    first.process.kill('SIGKILL')
    await first.ended
    const second = await start('256')
    await expect
      .poll(async () => (await healthOf(url)).models[0]?.workers.map(({ pid }) => pid))
      .toEqual([second.process.pid])
    expect((await complete(url)).status).toBe(200)
  })
})

describe('baton frontend - a worker that refuses to tell its card', () => {
  it('static discovery, another secret - /health and /ready name the cause until the worker has the right one', async () => {
    const port = await freePort()
    const start = (secret: string) =>
      startWorker(
        '',
        ['--worker-port', String(port)],
        { BATON_WIRE_SECRET: secret },
        'static:127.0.0.1:1',
      )
    const wrong = await start('two')
    const { url, printed } = await startFrontend('', [], {
      BATON_WIRE_SECRET: 'one',
      BATON_DISCOVERY: `static:127.0.0.1:${port}`,
    })
    const health = await healthOf(url)
    expect(health.message).toContain('different shared secrets')
    expect(health.warnings.join()).toContain(`127.0.0.1:${port}: the two processes`)
    const ready = await fetch(`${url}/ready`)
    expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining('secrets')])
    expect(printed()).toContain('different shared secrets')
    await expect.poll(wrong.printed).toContain('different shared secrets')
    wrong.process.kill('SIGKILL')
    await wrong.ended
    await start('one')
    await expect.poll(async () => (await healthOf(url)).status).toBe('healthy')
    expect((await healthOf(url)).warnings).toEqual([])
  })
})

describe('baton frontend - a model without workers', () => {
  it('requests - are 503 before the first worker and 404 once the model is forgotten; a request without a model is served', async () => {
    const folder = fleetFolder()
    const { url, printed } = await startFrontend(folder, [
      '--model-forget-seconds',
      '0.5',
      // Otherwise a request in flight at the leaving worker waits 10 s for another worker.
      '--migration-limit',
      '0',
    ])
    const early = await complete(url, { model: 'a' })
    expect([early.status, early.headers.get('retry-after')]).toEqual([503, '1'])
    const workers = await Promise.all(
      ['a', 'b'].map((name) => startWorker(folder, ['--served-model-name', name])),
    )
    await expect.poll(async () => (await complete(url, { model: 'a' })).status).toBe(200)
    await expect.poll(async () => (await complete(url, { model: 'b' })).status).toBe(200)
    expect((await complete(url)).status).toBe(400)
    workers[0]?.process.kill('SIGTERM')
    await expect.poll(async () => (await complete(url, { model: 'a' })).status).toBe(404)
    expect((await complete(url)).status).toBe(200)
    await expect.poll(printed).toContain('model forgotten')
  })

  it('kill -9 of all workers - /health is unhealthy as soon as requests fail', async () => {
    const folder = fleetFolder()
    const workers = await Promise.all([startWorker(folder), startWorker(folder)])
    const { url, printed } = await startFrontend(folder, ['--migration-limit', '0'])
    await expect.poll(async () => (await healthOf(url)).models[0]?.workers.length).toBe(2)
    for (const worker of workers) worker.process.kill('SIGKILL')
    let isRefused = false
    while (!isRefused) {
      isRefused = (await complete(url)).status === 503
      if (isRefused) expect((await healthOf(url)).status).toBe('not_ready')
    }
    await expect.poll(printed).toContain('worker is gone: process-died')
  })
})

describe('baton frontend - readiness requires an authenticated connection', () => {
  const certificates = (ca: string): string[] => {
    const names = { '--tls-cert': 'fleet.pem', '--tls-key': 'fleet.key', '--tls-ca': ca }
    return Object.entries(names).flatMap(([flag, name]) => [flag, tls(name)])
  }

  it.each([
    ['another secret', [], [], 'one', 'two', /secret/],
    ['a secret on one side only', [], [], 'one', '', /secret/],
    ['TLS at the worker only', certificates('fleet-ca.pem'), [], 'one', 'one', /TLS/],
    ['TLS at the frontend only', [], certificates('fleet-ca.pem'), 'one', 'one', /TLS/],
    [
      'a certificate of another authority',
      certificates('fleet-ca.pem'),
      [
        '--tls-cert',
        tls('stranger.pem'),
        '--tls-key',
        tls('stranger.key'),
        '--tls-ca',
        tls('fleet-ca.pem'),
      ],
      'one',
      'one',
      /TLS/,
    ],
    [
      'another authority',
      certificates('fleet-ca.pem'),
      certificates('stranger-ca.pem'),
      'one',
      'one',
      /TLS/,
    ],
  ] as const)('%s - health, ready and both logs name the problem', async (...given) => {
    const [, workerArgs, frontendArgs, workerSecret, frontendSecret, cause] = given
    const folder = fleetFolder()
    const secret = (text: string) => (text === '' ? {} : { BATON_WIRE_SECRET: text })
    const worker = await startWorker(folder, workerArgs, secret(workerSecret))
    const { url, printed } = await startFrontend(folder, frontendArgs, secret(frontendSecret))
    await expect.poll(async () => (await healthOf(url)).message).toMatch(cause)
    const health = await healthOf(url)
    expect([health.status, health.warnings.join()]).toMatchObject([
      'not_ready',
      expect.stringMatching(cause),
    ])
    const ready = await fetch(`${url}/ready`)
    expect([ready.status, await ready.text()]).toMatchObject([503, expect.stringMatching(cause)])
    await expect.poll(printed).toMatch(cause)
    await expect.poll(worker.printed).toMatch(cause)
  })
})
