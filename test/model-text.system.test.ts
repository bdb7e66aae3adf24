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
/**
 * A path that leads to another folder in every process: the worker has the file there, a frontend elsewhere does
 * not.
 */
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

describe.skipIf(process.platform !== 'linux')('a frontend without the model folder', () => {
  it('tokenizer and template - are fetched from a worker, cached by hash, and used', async () => {
    const [fleet, folder, cache] = [newFolder(), newFolder(), newFolder()]
    copyFileSync(MODEL, join(folder, 'there.gguf'))
    startWorker(fleet, folder)
    const url = await startFrontend(fleet, cache)
    await until('it serves', async () => (await chat(url)).status === 200)
    const kept = readdirSync(join(cache, 'text'))
    expect(kept).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)])
    // If nothing can be cached on disk, the text is fetched for the lifetime of the process.
    const without = await startFrontend(fleet, '/proc/nowhere')
    await until('it serves without a cache', async () => (await chat(without)).status === 200)
    // The second frontend finds the cached text: the worker may have lost its file.
    rmSync(join(folder, 'there.gguf'))
    const other = await startFrontend(fleet, cache)
    await until('the other serves', async () => (await chat(other)).status === 200)
  })

  it('a worker whose file has changed since its start - is not used', async () => {
    const [fleet, folder, cache] = [newFolder(), newFolder(), newFolder()]
    copyFileSync(MODEL, join(folder, 'there.gguf'))
    startWorker(fleet, folder)
    // A frontend fetches the text as soon as it discovers the worker.
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
    // The worker gets no requests, and its operator is told why.
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
    // As soon as the text can be fetched again the worker is used again, without a request that triggers it.
    copyFileSync(MODEL, join(folder, 'there.gguf'))
    await until('it is ready', async () => (await fetch(`${url}/ready`)).status === 200)
    expect((await chat(url)).status).toBe(200)
  })
})
