import { spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startBaton } from './running-server.ts'
import { until } from './until.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
const MODEL = fileURLToPath(new URL('../models/storyteller/storyteller-q8_0.gguf', import.meta.url))
const GUARD = { BATON_WIRE_SECRET: 'of this fleet' }
/** Leads to another place in every process: what a worker has there, a frontend elsewhere has not. */
const OWN_PATH = '/proc/self/cwd/there.gguf'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-text-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function startWorker(fleet: string, folder: string): void {
  const args = ['--discovery', `file:${fleet}`, '--engine', 'sim', '--sim-speedup', '0']
  const child = spawn(process.execPath, [MAIN, 'worker', ...args, '--model', OWN_PATH], {
    cwd: folder,
    env: { ...process.env, ...GUARD },
    stdio: 'ignore',
  })
  onTestFinished(() => void child.kill('SIGKILL'))
}

async function startFrontend(fleet: string, cache: string): Promise<string> {
  const args = ['frontend', '--discovery', `file:${fleet}`, '--port', '0', '--model-cache', cache]
  const frontend = await startBaton(args, /http:\/\/\S+\d/, {
    ...GUARD,
    TMPDIR: newFolder(),
  })
  onTestFinished(() => void frontend.process.kill('SIGKILL'))
  return /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
}

async function chat(url: string): Promise<{ readonly status: number; readonly text: string }> {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 5 }),
  })
  return { status: reply.status, text: await reply.text() }
}

describe.skipIf(process.platform !== 'linux')('a frontend without the folder of the model', () => {
  it('fetches tokenizer and template from a worker, keeps them by hash, and serves', async () => {
    const [fleet, folder, cache] = [newFolder(), newFolder(), newFolder()]
    copyFileSync(MODEL, join(folder, 'there.gguf'))
    startWorker(fleet, folder)
    const url = await startFrontend(fleet, cache)
    await until('it serves', async () => (await chat(url)).status === 200)
    const kept = readdirSync(join(cache, 'text'))
    expect(kept).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)])
    // Where nothing can be kept it is fetched all the same, for as long as the process lives.
    const without = await startFrontend(fleet, '/proc/nowhere')
    await until('it serves without a cache', async () => (await chat(without)).status === 200)
    // A second one has it already: the worker need not have its file any more.
    rmSync(join(folder, 'there.gguf'))
    const other = await startFrontend(fleet, cache)
    await until('the other serves', async () => (await chat(other)).status === 200)
  })

  it('a worker whose file has changed since it started - is not believed', async () => {
    const [fleet, folder, cache] = [newFolder(), newFolder(), newFolder()]
    copyFileSync(MODEL, join(folder, 'there.gguf'))
    startWorker(fleet, folder)
    // A frontend fetches the text as soon as it hears of the worker.
    await until('the worker is there', () =>
      readdirSync(fleet).some((name) => name.endsWith('.json')),
    )
    writeFileSync(join(folder, 'there.gguf'), Buffer.alloc(10_000_000, 1))
    const url = await startFrontend(fleet, cache)
    const seen: { readonly status: number; readonly text: string }[] = []
    await until('it is refused', async () => {
      seen.push(await chat(url))
      return seen.at(-1)?.text.includes('cannot be fetched') === true
    })
    expect(readdirSync(join(cache, 'text'))).toEqual([])
    // Nobody is to send requests here, and whoever runs it is told why.
    const ready = await fetch(`${url}/ready`)
    expect([ready.status, await ready.json()]).toEqual([
      503,
      { ready: false, reason: 'its tokenizer and template cannot be loaded' },
    ])
    const health = await fetch(`${url}/health`)
    expect([health.status, await health.text()]).toEqual([
      503,
      expect.stringContaining('cannot be fetched'),
    ])
    // As soon as the text can be had again requests come back, without one that asks for it.
    copyFileSync(MODEL, join(folder, 'there.gguf'))
    await until('it is ready', async () => (await fetch(`${url}/ready`)).status === 200)
    expect((await chat(url)).status).toBe(200)
  })
})
