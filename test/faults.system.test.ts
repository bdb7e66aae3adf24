import { randomUUID } from 'node:crypto'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const MODEL = fileURLToPath(new URL('../models/storyteller/storyteller-q8_0.gguf', import.meta.url))

interface StreamEnd {
  readonly status: number
  readonly text: string
  readonly done: boolean
  readonly error: { readonly message: string; readonly code: string | null } | null
}

async function start(args: readonly string[]): Promise<RunningServer> {
  const server = await startServer(args)
  onTestFinished(() => server.stop().then(() => undefined))
  return server
}

function post(
  server: RunningServer,
  body: Record<string, unknown>,
  requestId: string = randomUUID(),
  signal?: AbortSignal,
): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify({ model: 'storyteller', temperature: 0, stream: true, ...body }),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** Reads the stream until it ends in any way; `onText` is called with all text received so far. */
async function readStream(
  reply: Response,
  onText: (text: string) => void = () => undefined,
): Promise<StreamEnd> {
  let raw = ''
  const decoder = new TextDecoder()
  if (reply.body === null) throw new Error('no body')
  for await (const bytes of reply.body) {
    raw += decoder.decode(bytes, { stream: true })
    onText(textOf(raw))
  }
  const failure = /data: (\{"error".*\})/.exec(raw)?.[1] ?? (reply.status === 200 ? undefined : raw)
  const error =
    failure === undefined ? null : (JSON.parse(failure) as { error: StreamEnd['error'] }).error
  return { status: reply.status, text: textOf(raw), done: raw.includes('data: [DONE]'), error }
}

function textOf(raw: string): string {
  return [...raw.matchAll(/"delta":\{[^}]*"content":("(?:[^"\\]|\\.)*")/g)]
    .map((match) => JSON.parse(match[1] ?? '""') as string)
    .join('')
}

const prompt = (seed: number, words: number) => [
  {
    role: 'user',
    content: `Story ${seed}: ${'the brave fox lives in the forest '.repeat(words / 7)}`,
  },
]

/** Waits until every in-flight request of the frontend has ended and no block is reserved any more. */
async function expectIdle(server: RunningServer): Promise<void> {
  const sumOf = (text: string, name: string): number =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].reduce(
      (sum, match) => sum + Number(match[1]),
      0,
    )
  await expect
    .poll(async () => {
      const text = await (await fetch(`${server.url}/metrics`)).text()
      return [
        sumOf(text, 'baton_frontend_inflight_requests'),
        sumOf(text, 'baton_frontend_worker_active_decode_blocks'),
        sumOf(text, 'baton_frontend_worker_active_prefill_tokens'),
      ]
    })
    .toEqual([0, 0, 0])
}

async function expectServes(server: RunningServer): Promise<void> {
  await expect
    .poll(
      async () =>
        (await readStream(await post(server, { messages: prompt(0, 7), max_tokens: 3 }))).done,
      { interval: 200 },
    )
    .toBe(true)
}

describe('a client that disconnects', () => {
  it('at any moment - everything is released and the next request is served', async () => {
    const server = await start(['--sequences', '2'])
    for (const delayMs of [0, 1, 3, 6, 10, 15, 25, 40, 60, 100]) {
      const leave = new AbortController()
      setTimeout(() => leave.abort(), delayMs)
      await post(
        server,
        { messages: prompt(delayMs, 700), max_tokens: 2000, ignore_eos: true },
        randomUUID(),
        leave.signal,
      )
        .then(readStream)
        .catch(() => undefined)
    }
    await expectIdle(server)
    await expectServes(server)
  })
})

describe('a prefill worker that is killed', () => {
  it('before, during and after hand-over - every request ends and the fleet keeps serving', async () => {
    const server = await start(['--prefill', '2', '--decode', '1'])
    const ends: StreamEnd[] = []
    for (const [round, delayMs] of [0, 20, 60, 120, 250].entries()) {
      const replies = [1, 2, 3].map((n) =>
        post(server, {
          messages: prompt(round * 10 + n, 1400),
          max_tokens: 40,
          ignore_eos: true,
        }).then(readStream),
      )
      await new Promise((resolve) => setTimeout(resolve, delayMs))
      const pid = currentPids(server, 'prefill')[0]
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
      ends.push(...(await Promise.all(replies)))
      await expectServes(server)
    }
    // Two prefill workers: the other one computes what was lost.
    for (const end of ends) expect(end.error === null ? end.done : end.error.message).toBeTruthy()
    expect(ends.filter(({ error }) => error === null).length).toBeGreaterThan(ends.length / 2)
    await expectIdle(server)
  })
})

describe('a decode worker that is killed', () => {
  it('during a stream, with another decode worker - the request continues and the text is complete', async () => {
    const server = await start(['--prefill', '1', '--decode', '2'])
    const ask = {
      messages: [{ role: 'user', content: 'Tell me a long story about a robot named Otto.' }],
      max_tokens: 300,
      ignore_eos: true,
    }
    const undisturbed = await readStream(await post(server, ask))
    const requestId = randomUUID()
    let killed = false
    const disturbed = await readStream(await post(server, ask, requestId), (text) => {
      if (killed || text.length < 40) return
      killed = true
      void decodePidOf(server, requestId).then((pid) => process.kill(pid, 'SIGKILL'))
    })
    expect(killed).toBe(true)
    expect(disturbed.error).toBeNull()
    expect(disturbed.text).toBe(undisturbed.text)
    await expectIdle(server)
  })

  it('during a stream, without another worker or migration - the stream ends with an error event', async () => {
    const server = await start(['--prefill', '1', '--decode', '1', '--migration-limit', '0'])
    const end = await readStream(
      await post(server, { messages: prompt(1, 70), max_tokens: 2000, ignore_eos: true }),
      once(40, () => currentPids(server, 'decode').forEach((pid) => process.kill(pid, 'SIGKILL'))),
    )
    expect(end.status).toBe(200)
    expect(end.error?.message).toBeTruthy()
    await expectServes(server)
    await expectIdle(server)
  })
})

describe('a model file that becomes corrupt', () => {
  it.each(['1', '2'])(
    'under a running server with %s frontends - the worker is away with a reason, requests are refused immediately, and it serves again when the file is repaired',
    async (frontends) => {
      const folder = mkdtempSync(join(tmpdir(), 'baton-model-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const path = join(folder, 'model.gguf')
      copyFileSync(MODEL, path)
      const args = ['--model', path, '--aggregated', '1', '--frontends', frontends]
      const server = await start(args)
      rmSync(path)
      writeFileSync(path, 'garbage '.repeat(1000))
      for (const pid of currentPids(server, 'aggregated')) process.kill(pid, 'SIGKILL')
      const sentence =
        /worker aggregated 1 could not be started: .*model\.gguf.*; starting another one in 1 s/
      await expect.poll(() => server.printed()).toMatch(sentence)
      const away = /^worker aggregated 1 is not running and is started again: .*model\.gguf/
      await expect.poll(() => warningsOf(server)).toContainEqual(expect.stringMatching(away))
      const ready = await fetch(`${server.url}/ready`)
      const { reason } = (await ready.json()) as { reason: string }
      expect([ready.status, reason]).toEqual([
        503,
        expect.stringMatching(/worker aggregated 1 is not running \(model\.[a-z_]+\)$/),
      ])
      const reply = await post(server, { messages: prompt(1, 7), max_tokens: 3 })
      expect(reply.status).toBe(503)
      copyFileSync(MODEL, path)
      await expect.poll(() => server.printed()).toContain('worker aggregated 1 was started again')
      await expectServes(server)
      await expect.poll(() => warningsOf(server)).not.toContainEqual(expect.stringMatching(away))
    },
  )
})

async function warningsOf(server: RunningServer): Promise<readonly string[]> {
  const reply = await fetch(`${server.url}/health`)
  return ((await reply.json()) as { warnings: readonly string[] }).warnings
}

function once(atCharacters: number, act: () => void): (text: string) => void {
  let done = false
  return (text) => {
    if (done || text.length < atCharacters) return
    done = true
    act()
  }
}

/** Pids of the running workers with this role: from the banner, and from later messages. */
function currentPids(server: RunningServer, role: string): number[] {
  const printed = server.printed()
  const started = [...printed.matchAll(new RegExp(`worker +${role}.*?pid (\\d+)  `, 'g'))].map(
    (match) => Number(match[1]),
  )
  const restarted = [
    ...printed.matchAll(new RegExp(`worker ${role} \\d+ was started again \\(pid (\\d+)\\)`, 'g')),
  ].map((match) => Number(match[1]))
  const died = new Set([...printed.matchAll(/pid (\d+)\) died/g)].map((match) => Number(match[1])))
  return [...started, ...restarted].filter((pid) => !died.has(pid))
}

/** The process of the decode worker that the router chose for a request. */
async function decodePidOf(server: RunningServer, requestId: string): Promise<number> {
  const reply = await fetch(`${server.url}/debug/requests/${requestId}`)
  const { decisions } = (await reply.json()) as {
    decisions: { phase: string; outcome: { workerId: number } }[]
  }
  const chosen = decisions.find(({ phase }) => phase === 'decode')?.outcome.workerId
  const lines = [...server.printed().matchAll(/worker +decode +pid (\d+) .* id (\d+)$/gm)]
  return Number(lines.find((line) => line[2] === String(chosen))?.[1])
}
