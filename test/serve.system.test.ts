import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { isAlive, runBaton, startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const MODEL = fileURLToPath(new URL('../models/storyteller/storyteller-q8_0.gguf', import.meta.url))

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

interface ChatReply {
  readonly model: string
  readonly choices: readonly {
    readonly message: { readonly content: string }
    readonly finish_reason: string
  }[]
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } }
}

async function chat(server: RunningServer, body: Record<string, unknown>): Promise<Response> {
  return await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'storyteller', temperature: 0, ...body }),
  })
}

const hello = { messages: [{ role: 'user', content: 'Hello' }] }

describe('baton serve', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer([])
  })
  afterAll(async () => {
    await server.stop()
  })

  it('banner - shows the frontend, both workers with their pids, the model and the KV transport', () => {
    const printed = server.printed()
    expect(printed).toMatch(/serves storyteller/)
    expect(printed).toMatch(/worker +prefill +pid \d+/)
    expect(printed).toMatch(/worker +decode +pid \d+/)
    expect(printed).toMatch(/KV +is transferred from prefill to decode/)
    expect(server.workerPids).toHaveLength(2)
  })

  it('banner - its curl command works', async () => {
    const line = /curl -N (\S+) .* -d '(.*)'/.exec(server.printed())
    const reply = await fetch(line?.[1] ?? '', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: line?.[2] ?? '',
    })
    expect(reply.status).toBe(200)
    expect(await reply.text()).toMatch(/^data: \{.*data: \[DONE\]\n\n$/s)
  })

  it('chat - the answer depends on the prompt, and both workers take part', async () => {
    const reply = await chat(server, {
      messages: [{ role: 'user', content: 'Repeat after me: lamp zafi tiger' }],
      nvext: { extra_fields: ['worker_id'] },
    })
    const text = await reply.text()
    expect((JSON.parse(text) as ChatReply).choices[0]?.message.content).toBe('lamp zafi tiger')
    const ids = [...server.printed().matchAll(/ id (\d+)$/gm)].map((match) => match[1])
    expect(text).toContain(`"prefill_worker_id":${ids[0]}`)
    expect(text).toContain(`"decode_worker_id":${ids[1]}`)
  })

  it('prefix cache - a repeated long prompt is not computed again, and usage reports it', async () => {
    const long = 'Tom has a red kite and lives in the castle. '.repeat(20)
    const ask = async (more: object = {}) => {
      const messages = [{ role: 'user', content: long }]
      const reply = await chat(server, { messages, max_tokens: 4, ...more })
      return ((await reply.json()) as ChatReply).usage.prompt_tokens_details.cached_tokens
    }
    expect(await ask()).toBe(0)
    expect(await ask()).toBeGreaterThan(100)
    // The frontend stops at the first letter and hears no more from the engine.
    const vowels = ['a', 'e', 'i', 'o', 'u', 'y']
    expect(await ask({ max_tokens: 200, stop: vowels })).toBeGreaterThan(100)
  })

  it.each([
    '/v1/models',
    '/v1/models/storyteller',
    '/health',
    '/live',
    '/ready',
    '/metrics',
    '/openapi.json',
  ])('GET %s - returns 200', async (path) => {
    expect((await fetch(`${server.url}${path}`)).status).toBe(200)
  })

  it('a prompt longer than the context - is a 400 with both numbers', async () => {
    const reply = await chat(server, { messages: [{ role: 'user', content: 'fox '.repeat(5000) }] })
    expect(reply.status).toBe(400)
    const { error } = (await reply.json()) as { error: { code: string; message: string } }
    expect(error.code).toBe('context_length_exceeded')
    expect(error.message).toMatch(/4096.*\d{4}/)
  })

  it('a port in use - prints one clear line and exits with 1', async () => {
    const ended = await runBaton(['serve', '--engine', 'sim', '--port', String(server.port)])
    expect(ended).toMatchObject({ exitCode: 1 })
    expect(ended.printed).toMatch(/^baton: port \d+ on 127\.0\.0\.1 is in use: .*--port\n$/)
  })
})

describe('baton serve - start and shutdown', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    '%s - drains, exits with 0, leaves no process',
    async (signal) => {
      const server = await startServer(['--engine', 'sim', '--sim-speedup', '0.2'])
      const reply = await chat(server, { ...hello, stream: true, max_tokens: 20 })
      const ended = new Promise((resolve) => server.process.once('close', resolve))
      server.process.kill(signal)
      // npm forwards the signal of the terminal: this is not a second one.
      server.process.kill(signal === 'SIGINT' ? 'SIGTERM' : 'SIGINT')
      expect(await reply.text()).toContain('data: [DONE]')
      expect(await ended).toBe(0)
      await expect.poll(() => server.workerPids.filter(isAlive)).toEqual([])
    },
  )

  it('SIGHUP without a terminal - is ignored by every process, because it by custom asks for a reload', async () => {
    const server = await startServer(['--engine', 'sim', '--frontends', '2'])
    for (const pid of [server.frontendPid, ...server.workerPids]) process.kill(pid, 'SIGHUP')
    const reply = await chat(server, { ...hello, max_tokens: 20 })
    expect(reply.status).toBe(200)
    expect(await server.stop()).toBe(0)
  })

  it('a second Ctrl-C - exits at once, open streams are reported, no process is left', async () => {
    const server = await startServer([
      '--engine',
      'sim',
      '--sim-speedup',
      '0.1',
      '--drain-seconds',
      '60',
    ])
    const folderPrefix = `baton-fleet-${server.frontendPid}-`
    const reply = await chat(server, { ...hello, stream: true, max_tokens: 1000 })
    const ended = new Promise((resolve) => server.process.once('close', resolve))
    server.process.kill('SIGINT')
    await expect.poll(() => server.printed()).toContain('draining')
    // Signals within a short time after the first count as the same; the first one after that ends the server.
    const presses = setInterval(() => server.process.kill('SIGINT'), 100)
    onTestFinished(() => clearInterval(presses))
    expect(await ended).toBe(70)
    clearInterval(presses)
    const events = await reply.text()
    expect(events).toMatch(/\ndata: \{"error":[^\n]*shut down[^\n]*\n/)
    await expect.poll(() => server.workerPids.filter(isAlive)).toEqual([])
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith(folderPrefix))).toEqual([])
  })

  it('a closed stdout - the server keeps serving and shuts down cleanly', async () => {
    const server = await startServer(['--engine', 'sim', '--in-process'])
    server.process.stdout?.destroy()
    server.process.stderr?.destroy()
    expect((await chat(server, { ...hello, max_tokens: 0 })).status).toBe(200)
    expect(await server.stop()).toBe(0)
  })

  it('a killed parent - its workers exit too', async () => {
    const server = await startServer(['--engine', 'sim'])
    server.process.kill('SIGKILL')
    await expect.poll(() => server.workerPids.filter(isAlive)).toEqual([])
  })

  it('a worker that dies - is reported and replaced, and requests are served', async () => {
    const server = await startServer(['--engine', 'sim', '--sim-speedup', '0', '--aggregated', '1'])
    onTestFinished(() => server.stop().then(() => undefined))
    process.kill(server.workerPids[0] ?? 0, 'SIGKILL')
    await expect
      .poll(() => server.printed())
      .toMatch(/worker aggregated 1 \(pid \d+\) died: SIGKILL/)
    await expect
      .poll(async () => (await chat(server, { ...hello, max_tokens: 2 })).status)
      .toBe(200)
  })

  it('--in-process - gives the same answers with all workers in one process', async () => {
    const server = await startServer(['--in-process'])
    const reply = (await (
      await chat(server, {
        messages: [{ role: 'user', content: 'Repeat after me: lamp zafi tiger' }],
      })
    ).json()) as ChatReply
    expect(reply.choices[0]?.message.content).toBe('lamp zafi tiger')
    expect(server.workerPids).toEqual([])
    expect(await server.stop()).toBe(0)
  })
})

describe('baton - invalid arguments print one line and set the exit code', () => {
  it.each([
    ['an unknown flag', ['serve', '--prot', '1'], 2, '--prot'],
    ['an unknown command', ['srve'], 2, 'srve'],
    ['a bad value', ['serve', '--port', 'abc'], 2, '--port'],
    ['a contradiction', ['serve', '--aggregated', '2', '--prefill', '1'], 2, 'contradict'],
    [
      'an unknown mode',
      ['worker', '--mode', 'encode', '--discovery-dir', 'x'],
      2,
      '"encode" is invalid: expected one of: agg, prefill, decode, auto',
    ],
    ['a flag of another command', ['worker', '--prefill', '2'], 2, '--prefill'],
    ['a flag of the other engine', ['serve', '--engine', 'sim', '--gpu', 'auto'], 2, '--gpu'],
    ['no address of a server', ['chat', '--url', 'somewhere'], 2, 'somewhere'],
    [
      'a fleet in a file',
      ['frontend', '--port', '0', '--discovery-dir', 'package.json'],
      2,
      'package.json',
    ],
    ['no discovery', ['frontend'], 2, '--discovery is missing'],
    ['a missing model', ['serve', '--port', '0', '--model', 'no-such.gguf'], 1, 'no-such.gguf'],
  ])('%s', async (_what, args, exitCode, named) => {
    const ended = await runBaton(args)
    expect(ended.printed).toContain(named)
    expect(ended.printed).toMatch(/^baton: [^\n]+\n(\(Did you mean [^\n]+\n)?$/)
    expect(ended.exitCode).toBe(exitCode)
  })

  it('a damaged model - the error names it, whatever the damage', async () => {
    const path = join(folder(), 'bad.gguf')
    const whole = readFileSync(MODEL)
    for (const bytes of [`GGUF${'\0'.repeat(100)}`, whole.subarray(0, whole.length - 1)]) {
      writeFileSync(path, bytes)
      const ended = await runBaton(['serve', '--port', '0', '--aggregated', '1', '--model', path])
      expect(ended.exitCode).toBe(1)
      expect(ended.printed).toContain('bad.gguf')
      expect(ended.printed).toMatch(/^baton: [^\n]+\n$/)
    }
  })

  it('a port that another process uses - the error names it', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => new Promise<void>((resolve) => other.close(() => resolve())))
    const { port } = other.address() as AddressInfo
    const ended = await runBaton(['serve', '--engine', 'sim', '--port', String(port)])
    expect(ended.printed).toContain(`port ${port}`)
  })
})

describe('baton config and help', () => {
  it('config - prints each value and its source', async () => {
    const path = join(folder(), 'my.yaml')
    writeFileSync(path, 'decode: 2\n')
    const ended = await runBaton(['config', '--config', path, '--port', '9000'], {
      BATON_THREADS: '2',
    })
    expect(ended.exitCode).toBe(0)
    expect(ended.printed).toMatch(/--port +9000 +--port/)
    expect(ended.printed).toMatch(/--threads +2 +BATON_THREADS/)
    expect(ended.printed).toMatch(/--decode +2 +.*my\.yaml: decode/)
    expect(ended.printed).toMatch(/--host +127\.0\.0\.1 +default/)
  })

  it('serve --help - has examples and the environment variables', async () => {
    const ended = await runBaton(['serve', '--help'])
    expect(ended.exitCode).toBe(0)
    expect(ended.printed).toContain('Examples:')
    expect(ended.printed).toContain('BATON_PREFILL')
  })
})
