/** Routing by cached blocks with real processes: known at once, learnt late, or assumed without KV events. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'
import { until } from './until.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
const EXAMPLE = fileURLToPath(new URL('../examples/router.yaml', import.meta.url))
/** Costs of time would depend on how fast a worker happened to answer. */
const BLOCKS = ['--router-cost', 'blocks']
const folder = mkdtempSync(join(tmpdir(), 'baton-routing-'))
const ends: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
let server: RunningServer

beforeAll(async () => {
  const fleet = ['--aggregated', '2', '--discovery-dir', folder]
  server = await startServer(['--engine', 'sim', '--sim-speedup', '0', ...fleet, ...BLOCKS])
  ends.push(() => server.stop())
})

afterAll(async () => {
  for (const end of ends.toReversed()) await end()
})

/** Starts another frontend for the same workers; resolves once it knows their models. */
async function startFrontend(...args: string[]): Promise<string> {
  const child = spawn(
    process.execPath,
    [MAIN, 'frontend', '--discovery-dir', folder, '--port', '0', ...BLOCKS, ...args],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  ends.push(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
  await until('frontend', () => /http:\/\/[\d.]+:\d+/.test(printed))
  const url = /http:\/\/[\d.]+:\d+/.exec(printed)?.[0] ?? ''
  await until('ready', async () => (await fetch(`${url}/ready`)).ok)
  return url
}

/** An engine that reports the second half of a prompt's blocks, as if the event with the first half had been lost. */
const LOSSY = `
import { finishChunk, promptBlocks, tokenChunk, usageOf } from ${JSON.stringify(new URL('../dist/lib/engine.js', import.meta.url).href)}
export default class Lossy {
  #observer
  #held = []
  async start() { return { model: 'lossy', contextLength: 8192, kvCacheBlockSize: 16 } }
  observe(observer) { this.#observer = observer }
  heldKv() { return this.#held }
  async *generate({ tokenIds }) {
    const { keys, fullBlocks } = promptBlocks(tokenIds, tokenIds.length, 16)
    const stored = { kind: 'stored', tier: 'device', localHashes: new Uint32Array(0) }
    const half = 2 * (fullBlocks >> 1)
    this.#held = [{ ...stored, parent: null, hashes: keys.slice(0, 2 * fullBlocks) }]
    const parent = [keys[half - 2], keys[half - 1]]
    this.#observer.kvEvents(0, [{ ...stored, parent, hashes: keys.slice(half, 2 * fullBlocks) }])
    yield tokenChunk(1000)
    yield finishChunk('length', { usage: usageOf(tokenIds.length, 1) })
  }
  async cleanup() {}
}
`

interface Decision {
  readonly worker: string
  readonly overlap: number
  readonly header: string
}

async function ask(url: string, content: string): Promise<Decision> {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-baton-decision': '1' },
    body: JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: 2 }),
  })
  expect([reply.status, await reply.text()]).toEqual([200, expect.stringContaining('usage')])
  const header = reply.headers.get('x-baton-decision') ?? ''
  return {
    worker: /worker="(\d+)"/.exec(header)?.[1] ?? '',
    overlap: Number(/overlap=(\d+)/.exec(header)?.[1]),
    header,
  }
}

const promptAbout = (what: string): string => `Tell me about ${what}. `.repeat(60)

describe('routing by cached blocks', () => {
  it('KV events - a repeated prompt goes to the worker that has it cached, and the header says so', async () => {
    const first = await ask(server.url, promptAbout('lamps'))
    expect(first.header).toMatch(
      /^aggregated; worker="\d+"; rank=0; reason="lowest cost"; overlap=/,
    )
    await until('the events', async () => {
      const again = await ask(server.url, promptAbout('lamps'))
      return again.worker === first.worker && again.overlap > 20
    })
  })

  it('a late frontend - learns what the workers cached before it started', async () => {
    const before = await ask(server.url, promptAbout('boats'))
    const late = await startFrontend()
    await until('the snapshot', async () => {
      const { worker, overlap } = await ask(late, promptAbout('boats'))
      return worker === before.worker && overlap > 20
    })
  })

  it('events that the index rejects - a snapshot is requested, and then all blocks are known', async () => {
    const path = join(folder, 'lossy.mjs')
    writeFileSync(path, LOSSY)
    const own = ['--engine', path, '--aggregated', '1', '--served-model-name', 'lossy']
    const lossy = await startServer([...own, ...BLOCKS])
    ends.push(() => lossy.stop())
    expect((await ask(lossy.url, promptAbout('goats'))).overlap).toBe(0)
    const health = async (): Promise<unknown> => (await fetch(`${lossy.url}/health`)).json()
    await until('the rejection', async () =>
      JSON.stringify(await health()).includes('1 KV events were rejected'),
    )
    expect(JSON.stringify(await health())).toContain('1 snapshots were requested')
    await until('the snapshot', async () => {
      const { overlap } = await ask(lossy.url, promptAbout('goats'))
      return overlap > 20
    })
  })

  it('without KV events - a frontend assumes that sent prompts are cached; the router file is read', async () => {
    const url = await startFrontend('--router-kv-events', 'false', '--router-config', EXAMPLE)
    const first = await ask(url, promptAbout('lamps'))
    expect(first.overlap).toBe(0)
    for (let i = 0; i < 4; i++) {
      const { worker, overlap } = await ask(url, promptAbout('lamps'))
      expect([worker, overlap > 20]).toEqual([first.worker, true])
    }
    const health = (await (await fetch(`${url}/health`)).json()) as unknown
    expect(JSON.stringify(health)).toContain('events are off')
  })
})
