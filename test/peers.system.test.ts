/** What frontends of one fleet share: over NATS, or over the connections to their common workers. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { NatsServer, NATS_VERSION } from './nats/nats-server.ts'
import { runBaton, startBaton } from './running-server.ts'
import type { RunningBaton } from './running-server.ts'
import { until } from './until.ts'

interface Running {
  readonly baton: RunningBaton
  readonly url: string
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-peers-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function startWorker(where: readonly string[]): Promise<void> {
  const args = ['worker', ...where, '--engine', 'sim', '--sim-speedup', '0.2']
  const worker = await startBaton(args, /ready/)
  onTestFinished(() => void worker.process.kill('SIGKILL'))
}

async function startFrontend(where: readonly string[], keys: string): Promise<Running> {
  const args = ['frontend', ...where, '--port', '0', '--keys', keys]
  const baton = await startBaton(args, /http:\/\/\S+\d/)
  onTestFinished(() => void baton.process.kill('SIGKILL'))
  return { baton, url: /http:\/\/[\d.]+:\d+/.exec(baton.printed())?.[0] ?? '' }
}

/** Node cancels the body of a response that is garbage before it was read, which would end the stream. */
const replies: Response[] = []

/** A stream that runs until it is aborted. */
async function begin(
  url: string,
  key: string,
): Promise<{ readonly status: number; readonly leave: () => void }> {
  const ended = new AbortController()
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ prompt: 'hi', max_tokens: 3000, ignore_eos: true, stream: true }),
    signal: ended.signal,
  })
  replies.push(reply)
  onTestFinished(() => ended.abort())
  return { status: reply.status, leave: () => ended.abort() }
}

async function newKey(file: string): Promise<string> {
  const limits = ['--tenant', 't', '--concurrency', '1']
  const made = await runBaton(['keys', 'add', '--file', file, ...limits])
  return /^baton_\S+$/m.exec(made.printed)?.[0] ?? ''
}

async function startNats(): Promise<NatsServer> {
  const server = await NatsServer.start()
  onTestFinished(() => server.close())
  return server
}

const WAYS = [
  ['over workers', () => Promise.resolve(`file:${newFolder()}`)],
  ...(NATS_VERSION === null ? [] : [['over NATS', async () => (await startNats()).url] as const]),
] as const

describe.each(WAYS)('frontends of one fleet, %s', (_, meetingPlace) => {
  it('a key - its limit applies once for all frontends; a dead frontend releases its use, a late one learns it', async () => {
    const keys = join(newFolder(), 'keys.json')
    const key = await newKey(keys)
    const where = ['--discovery', await meetingPlace()]
    await startWorker(where)
    const [one, two] = [await startFrontend(where, keys), await startFrontend(where, keys)]
    const status = async ({ url }: Running): Promise<number> => {
      const { status: answered, leave } = await begin(url, key)
      leave()
      return answered
    }
    for (const each of [one, two]) {
      await until('it serves', async () => (await status(each)) === 200)
      await until('its stream has ended', async () => (await status(each)) === 200)
    }
    await until('a stream runs at one', async () => (await begin(one.url, key)).status === 200)
    await until('two refuses', async () => (await status(two)) === 429)
    const late = await startFrontend(where, keys)
    await until('the late one is connected and knows', async () => (await status(late)) === 429)
    one.baton.process.kill('SIGKILL')
    await until('frontend two accepts requests again', async () => (await status(two)) === 200)
  })
})

describe.skipIf(NATS_VERSION === null)('two fleets on one NATS server', () => {
  it('fleets - have separate workers and separate key limits', async () => {
    const keys = join(newFolder(), 'keys.json')
    const key = await newKey(keys)
    const { url } = await startNats()
    const fleets = ['red', 'blue'].map((prefix) => ['--discovery', `${url}?prefix=${prefix}`])
    const [red = [], blue = []] = fleets
    await startWorker(red)
    const [one, other] = [await startFrontend(red, keys), await startFrontend(blue, keys)]
    await until('red serves', async () => (await begin(one.url, key)).status === 200)
    const models = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${key}` }
      const reply = await fetch(`${other.url}/v1/models`, { headers })
      return ((await reply.json()) as { data: unknown[] }).data.length
    }
    // The red fleet knows its worker and the use of the key in it.
    expect([await models(), (await begin(other.url, key)).status]).toEqual([0, 503])
    await startWorker(blue)
    await until(
      'the blue fleet serves too',
      async () => (await begin(other.url, key)).status === 200,
    )
    expect((await begin(one.url, key)).status).toBe(429)
  })
})
