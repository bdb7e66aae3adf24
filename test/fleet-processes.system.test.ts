import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import type { WorkerReport } from '../src/host/index.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
const MODEL = fileURLToPath(new URL('../models/storyteller/storyteller-q8_0.gguf', import.meta.url))
const TOKEN = 'secret of an administrator'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

function newFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-fleet-'))
  ends.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

interface Running {
  readonly child: ChildProcess
  readonly printed: () => string
  readonly exitCode: Promise<number | null>
}

function baton(args: readonly string[], environment: NodeJS.ProcessEnv = {}): Running {
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => (text += bytes.toString()))
  }
  const exitCode = new Promise<number | null>((resolve) => child.once('close', resolve))
  ends.push(() => {
    child.kill('SIGKILL')
    return exitCode
  })
  return { child, printed: () => text, exitCode }
}

async function startWorker(
  folder: string,
  args: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
): Promise<Running & { readonly report: Extract<WorkerReport, { kind: 'ready' }> }> {
  const sim = ['--engine', 'sim', '--sim-speedup', '0', '--grace-seconds', '0']
  const worker = baton(['worker', '--discovery-dir', folder, ...sim, ...args], environment)
  await expect.poll(worker.printed).toContain('\n')
  const report = JSON.parse(worker.printed()) as WorkerReport
  if (report.kind !== 'ready') throw new Error(worker.printed())
  return { ...worker, report }
}

/** Starts `baton frontend` on a free port. */
async function startFrontend(folder: string): Promise<string> {
  const frontend = baton(['frontend', '--discovery-dir', folder, '--port', '0'])
  await expect.poll(frontend.printed).toMatch(/http:\/\/[\d.]+:\d+/)
  return /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
}

async function modelsOf(url: string): Promise<readonly string[]> {
  const list = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  return list.data.map(({ id }) => id)
}

async function workersOf(url: string): Promise<readonly string[]> {
  const health = (await (await fetch(`${url}/health`)).json()) as {
    models: { workers: { worker_id: number }[] }[]
  }
  return health.models.flatMap(({ workers }) => workers.map((worker) => String(worker.worker_id)))
}

function chat(url: string, body: object = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'storyteller',
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 4,
      ...body,
    }),
  })
}

describe('baton worker - admin port', () => {
  it('drain, resume, status, controls and metrics - work with the token, and frontends follow', async () => {
    const folder = newFolder()
    const worker = await startWorker(folder, ['--admin-port', '0'], { BATON_ADMIN_TOKEN: TOKEN })
    const url = await startFrontend(folder)
    await expect.poll(() => modelsOf(url)).toEqual(['storyteller'])
    const call = async (method: string, path: string, token: string | null = TOKEN) => {
      const reply = await fetch(`http://127.0.0.1:${worker.report.adminPort}${path}`, {
        method,
        ...(token === null ? {} : { headers: { authorization: `Bearer ${token}` } }),
      })
      return { status: reply.status, text: await reply.text() }
    }

    for (const token of [null, 'wrong', TOKEN.slice(1)]) {
      for (const path of ['drain', 'resume', 'control/clear_kv_blocks']) {
        const { status, text } = await call('POST', `/engine/${path}`, token)
        expect([path, status]).toEqual([path, 401])
        expect(text).toContain('request.unauthenticated')
      }
      expect((await call('GET', '/engine/status', token)).status).toBe(401)
    }
    expect(await modelsOf(url)).toEqual(['storyteller'])

    const status = async () => JSON.parse((await call('GET', '/engine/status')).text) as object
    expect(await status()).toMatchObject({ state: 'serving', isRegistered: true })
    expect((await call('POST', '/engine/drain')).status).toBe(200)
    await expect.poll(() => modelsOf(url)).toEqual([])
    await expect.poll(status).toMatchObject({ state: 'drained', isRegistered: false })
    expect((await chat(url)).status).toBe(503)
    expect((await call('GET', '/health', null)).status).toBe(503)
    expect((await call('GET', '/live', null)).status).toBe(200)

    expect((await call('POST', '/engine/resume')).status).toBe(200)
    await expect.poll(() => modelsOf(url)).toEqual(['storyteller'])
    await expect.poll(async () => (await chat(url)).status).toBe(200)
    const cleared = await call('POST', '/engine/control/clear_kv_blocks')
    expect(cleared).toMatchObject({ status: 200, text: '{"status":"ok"}\n' })
    expect((await call('POST', '/engine/control/no_such')).status).toBe(404)
    expect((await call('GET', '/metrics', null)).text).toMatch(
      /baton_worker_requests_total\{.*\} 1/,
    )

    worker.child.kill('SIGTERM')
    expect(await worker.exitCode).toBe(0)
  })

  it('open to other machines without a token - startup is refused', async () => {
    const args = ['--engine', 'sim', '--worker-host', '0.0.0.0', '--admin-port', '0']
    const worker = baton(['worker', '--discovery-dir', newFolder(), ...args])
    expect(await worker.exitCode).toBe(2)
    expect(worker.printed()).toMatch(/config\.invalid.*needs --admin-token/)
  })

  it('baton config - does not print the token', async () => {
    const config = baton(['config', '--json'], { BATON_ADMIN_TOKEN: TOKEN })
    expect(await config.exitCode).toBe(0)
    expect(config.printed()).toContain('BATON_ADMIN_TOKEN')
    expect(config.printed()).not.toContain(TOKEN)
  })
})

describe('baton frontend - which models and workers are listed', () => {
  it('a prefill worker alone - serves no chat model; together with a decode worker it does', async () => {
    const folder = newFolder()
    const url = await startFrontend(folder)
    const prefill = await startWorker(folder, ['--mode', 'prefill'])
    await expect.poll(() => workersOf(url)).toEqual([prefill.report.workerId])
    expect(await modelsOf(url)).toEqual([])
    const refused = await chat(url)
    expect(refused.status).toBe(503)
    expect(await refused.text()).toContain('there is no decode worker')

    await startWorker(folder, ['--mode', ' DECODE '])
    await expect.poll(() => modelsOf(url)).toEqual(['storyteller'])
    await expect.poll(async () => (await chat(url)).status).toBe(200)
  })

  it('a suspended worker - is removed from every frontend when its lease ends, and returns when it resumes', async () => {
    const folder = newFolder()
    const worker = await startWorker(folder)
    const urls = await Promise.all([startFrontend(folder), startFrontend(folder)])
    const seen = () => Promise.all(urls.map(workersOf))
    const id = worker.report.workerId
    await expect.poll(seen).toEqual([[id], [id]])
    worker.child.kill('SIGSTOP')
    ends.push(() => worker.child.kill('SIGCONT'))
    await expect.poll(seen).toEqual([[], []])
    worker.child.kill('SIGCONT')
    await expect.poll(seen).toEqual([[id], [id]])
  })
})

describe('baton frontend - errors that clients see', () => {
  it('a model deleted from disk - the error has its code, but no path and no stack trace', async () => {
    const folder = newFolder()
    const model = join(newFolder(), 'storyteller.gguf')
    copyFileSync(MODEL, model)
    await startWorker(folder, ['--model', model, '--served-model-name', 'storyteller'])
    rmSync(model)
    const url = await startFrontend(folder)
    await expect.poll(() => modelsOf(url)).toEqual(['storyteller'])
    const messages = [{ role: 'user', content: 'Hello' }]
    const calls = [
      ['/v1/chat/completions', { messages }],
      ['/v1/chat/completions', { messages, stream: true }],
      ['/v1/completions', { prompt: 'Hello' }],
      ['/v1/messages', { messages, max_tokens: 4 }],
      ['/v1/responses', { input: 'Hello' }],
      ['/tokenize', { prompt: 'Hello' }],
    ] as const
    for (const [path, body] of calls) {
      const reply = await fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'storyteller', ...body }),
      })
      const text = await reply.text()
      expect([path, reply.status]).toEqual([path, 500])
      expect(text).toContain('model.load_failed')
      expect(text).not.toMatch(/\.gguf|\.[jt]s\b|baton-fleet|node_modules|\\n\s+at /)
    }
  })
})
