import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BLOCKS, linesOf, ROOT } from './docs-code.ts'
import type { Block } from './docs-code.ts'
import { freePort } from './free-port.ts'
import { startBaton, startServer, withoutTestVariables } from './running-server.ts'
import type { RunningBaton, RunningServer } from './running-server.ts'

/**
 * Runs the code blocks of README and docs that are not marked `no-run`, in a separate folder with the files that
 * they name. Only addresses of servers, ids that a reader fills in, and the number of generated requests are
 * replaced.
 */
const REQUESTS = 40

const folder = mkdtempSync(join(tmpdir(), 'baton-docs-'))
const fleet = `file:${join(folder, 'common-fleet')}`
const environment = {
  ...withoutTestVariables(process.env),
  PATH: `${join(folder, 'bin')}${delimiter}${process.env['PATH'] ?? ''}`,
}

const runnable = BLOCKS.filter(({ mark }) => mark === '')
const shells = runnable.filter(({ language }) => language === 'sh')
const programs = runnable.filter(({ language }) => language === 'ts' || language === 'js')

function programWith(part: string): string {
  const [found = expect.fail(`no block has ${part}`)] = programs.filter(({ text }) =>
    text.includes(part),
  )
  return found.text
}

interface Ended {
  readonly exitCode: number | null
  readonly printed: string
}

/** Runs a line until it ends; a server is stopped once it has printed that it serves. */
function run(line: string): Promise<Ended> {
  const child = spawn('bash', ['-c', line], { cwd: folder, env: environment })
  let printed = ''
  const take = (bytes: Buffer): void => {
    const before = printed
    printed += bytes.toString()
    const isReady = (text: string): boolean => /Ctrl-C drains|"kind":"ready"/.test(text)
    if (!isReady(before) && isReady(printed)) child.kill('SIGTERM')
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  return new Promise((resolve) => {
    child.once('close', (exitCode) => resolve({ exitCode, printed }))
  })
}

/** A trace in Mooncake's format: conversations with a common prefix. */
function trace(): string {
  const entries = Array.from({ length: REQUESTS }, (_, i) => ({
    timestamp: 3000 * Math.floor(i / 4),
    input_length: 1500 + i,
    output_length: 20 + (i % 7),
    hash_ids: [0, 1 + (i % 5), 10 + i],
  }))
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
}

describe('code blocks of the docs without `no-run`', () => {
  let server: RunningServer
  let worker: RunningBaton

  beforeAll(async () => {
    const bin = join(folder, 'bin')
    mkdirSync(bin)
    const main = join(ROOT, 'dist/bin/baton.js')
    // `exec`, so that the signal for the shell reaches the program.
    writeFileSync(join(bin, 'baton'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`)
    chmodSync(join(bin, 'baton'), 0o755)
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(ROOT, join(folder, 'node_modules/baton-llm'))
    symlinkSync(join(ROOT, 'models/storyteller'), join(folder, 'my-model'))
    const engine = programWith('class Echo')
    const files = { 'mine.js': engine, 'engine.js': engine, 'power.js': programWith("'power'") }
    const traces = { 'trace.jsonl': trace(), 'conversation_trace.jsonl': trace() }
    const all = { ...files, ...traces, 'package.json': '{"type":"module"}' }
    for (const [name, text] of Object.entries(all)) writeFileSync(join(folder, name), text)
    server = await startServer(['--engine', 'sim', '--sim-speedup', '0', '--decode', '2'])
    const sim = ['--engine', 'sim', '--sim-speedup', '0', '--grace-seconds', '0']
    worker = await startBaton(['worker', ...sim, '--discovery', fleet], /ready/)
  })
  afterAll(async () => {
    worker?.process.kill('SIGTERM')
    await Promise.all([worker?.ended, server?.stop()])
    rmSync(folder, { recursive: true, force: true })
  })

  async function filledIn(line: string, ids: Record<string, string>): Promise<string> {
    const here = line
      .replace(/(http:\/\/127\.0\.0\.1|localhost):8000/, server.url)
      .replace('file:/srv/baton/fleet', `'${fleet}'`)
      .replace(/^baton doctor$/, `baton doctor --url ${server.url}`)
      .replace(/\brequests=\d+/, `requests=${REQUESTS}`)
      .replace(/--requests \d+/, `--requests ${REQUESTS}`)
      .replace('<id>', ids['key'] ?? '')
      .replace('"worker_id": 123', `"worker_id": ${ids['worker'] ?? ''}`)
      .replace('"zmq_kv_events_port": 5557', `"zmq_kv_events_port": ${await freePort()}`)
      .replace('"zmq_replay_port": 5558', `"zmq_replay_port": ${await freePort()}`)
    if (/^baton worker/.test(here)) return `exec ${here} --grace-seconds 0`
    return /^baton serve/.test(here) ? `exec ${here} --port 0` : here
  }

  async function runBlock(block: Block): Promise<void> {
    const ids: Record<string, string> = {}
    for (const line of linesOf(block)) {
      // One after the other, as a reader would run them.
      const asked = await filledIn(line, ids)
      const { exitCode, printed } = await run(asked)
      expect([asked, exitCode, printed]).toEqual([asked, 0, printed])
      expect([asked, printed]).not.toEqual([asked, expect.stringMatching(/"error":/)])
      const [, key] = /^([0-9a-f]{8})\s+acme/m.exec(printed) ?? []
      const [, workerId] = /"worker_id":\s*"?(\d+)/.exec(printed) ?? []
      if (key !== undefined) ids['key'] = key
      if (workerId !== undefined) ids['worker'] = workerId
    }
  }

  it.each(shells)('$page: $text', runBlock)

  it('shell and program blocks - are found', () => {
    expect([shells.length > 10, programs.length]).toEqual([true, 5])
  })

  it('docs/routing.md: a scorer - its term appears in each decision', async () => {
    const scorer = join(folder, 'power.js')
    const other = await startServer(['--engine', 'sim', '--sim-speedup', '0', '--scorer', scorer])
    const reply = await fetch(`${other.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-baton-decision': '1' },
      body: JSON.stringify({ model: 'storyteller', prompt: 'Once', max_tokens: 3 }),
    })
    expect(await reply.text()).toContain('"finish_reason":"length"')
    expect(reply.headers.get('x-baton-decision')).toMatch(/ power=/)
    expect(await other.stop()).toBe(0)
  })

  it('docs/laboratory.md: a simulation from a program - runs', async () => {
    writeFileSync(join(folder, 'laboratory.js'), programWith('runFleet'))
    const { exitCode, printed } = await run(`exec '${process.execPath}' laboratory.js`)
    expect([exitCode, printed]).toEqual([0, expect.stringContaining('TTFT')])
  })

  it('README.md: the OpenAI SDK as client - works', async () => {
    symlinkSync(join(ROOT, 'node_modules/openai'), join(folder, 'node_modules/openai'))
    const program = await filledIn(programWith("from 'openai'"), {})
    writeFileSync(join(folder, 'client.mts'), program)
    const tsx = pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href
    const { exitCode, printed } = await run(`exec '${process.execPath}' --import ${tsx} client.mts`)
    expect([exitCode, printed.length > 20, printed]).toEqual([0, true, printed])
  })

  // The fifth program, in docs/engines.md, is examples/engine-in-30-lines.ts: engines-doc.test.ts compares them.
})
