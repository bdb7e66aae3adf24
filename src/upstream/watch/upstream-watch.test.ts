import { afterEach, describe, expect, it } from 'vitest'
import { fakeServer, jsonResponse } from '../../../test/upstream/transcripts.ts'
import { until } from '../../../test/until.ts'
import { BatonError } from '../../base/index.ts'
import { osClock } from '../../os/index.ts'
import { UpstreamClient } from '../client/upstream-client.ts'
import { parseUpstreamUrl } from '../client/upstream-url.ts'
import { createDialect } from '../dialects/dialect-table.ts'
import { serverIdentity } from './server-identity.ts'
import { UpstreamWatch } from './upstream-watch.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

const NO_LOAD = {
  dpRank: 0,
  activeBlocks: 0,
  totalBlocks: 0,
  runningRequests: 0,
  queuedRequests: 0,
  prefillTokensInFlight: 0,
}
const RUN = { method: 'POST', path: '/v1/completions', body: '{}' }
const SINK = {
  onHead: () => undefined,
  onBody: () => undefined,
  onEnd: () => undefined,
  onError: () => undefined,
}

interface Silent {
  readonly client: UpstreamClient
  /** Number of health checks that reached the server, which answers none. */
  looks: number
  /** The connection of the running request. */
  run: { write(text: string): unknown } | null
  /** True: at every health check it sends more of that answer. */
  goesOn: boolean
  /** True: it answers health checks again. */
  answers: boolean
  lost: BatonError | null
  /** The reports about new requests: the reason why there should be none, null when they are allowed again. */
  readonly told: (BatonError | null)[]
  watch(): void
}

async function silentServer(callsMax?: number): Promise<Silent> {
  const server = await fakeServer(({ method, socket }) => {
    if (method === 'POST') {
      silent.run = socket
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    } else {
      silent.looks += 1
      if (silent.answers) return 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
      if (silent.goesOn) silent.run?.write('1\r\n.\r\n')
    }
    return null
  })
  const url = parseUpstreamUrl(server.url)
  const client = new UpstreamClient({
    url,
    clock: osClock,
    ...(callsMax === undefined ? {} : { callsMax }),
  })
  const watch = new UpstreamWatch({
    client,
    dialect: {},
    clock: osClock,
    everyMs: 1,
    // Longer than a busy machine pauses this process.
    deadlineMs: 400,
    onLoad: () => undefined,
    onUnavailable: (error) => silent.told.push(error),
    onLost: (error) => {
      silent.lost = error
    },
  })
  open.push(watch, client, server)
  const silent: Silent = {
    client,
    looks: 0,
    run: null,
    goesOn: false,
    answers: false,
    lost: null,
    told: [],
    watch: () => watch.start(),
  }
  return silent
}

interface Says {
  models: object[]
  props?: object
  info?: object
  metrics?: string
  isSilent?: boolean
  refusal?: number
}

/** A server whose description is what `says` has; it answers everything else with 200. */
async function describedServer(says: Says) {
  let asked = 0
  const server = await fakeServer(({ path, method }) => {
    if (path === '/403') return jsonResponse(403, {})
    if (says.refusal !== undefined && (path === '/v1/models' || method === 'POST')) {
      return jsonResponse(says.refusal, { error: 'Unauthorized' })
    }
    if (path === '/v1/models') asked += 1
    if (path === '/v1/models' && says.isSilent === true) return null
    const bodies: Readonly<Record<string, string | undefined>> = {
      '/props': JSON.stringify(says.props),
      '/model_info': JSON.stringify(says.info),
      '/metrics': says.metrics,
    }
    const body = bodies[path] ?? JSON.stringify({ data: says.models })
    return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  })
  const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
  const { props, info, metrics } = says
  const kind =
    props !== undefined
      ? 'llama-server'
      : info !== undefined
        ? 'sglang'
        : metrics !== undefined
          ? 'vllm'
          : 'openai'
  const dialect = await createDialect(kind, { mode: 'agg', clock: osClock })
  await dialect.load?.(client, 400)
  const askIdentity = (deadlineMs: number) =>
    serverIdentity(client, { dialect, model: 'm', deadlineMs })
  const lost: string[] = []
  const told: (string | null)[] = []
  let checks = 0
  /** Checks at each question for the identity. */
  const checksAt: number[] = []
  const watch = new UpstreamWatch({
    client,
    dialect,
    identity: await askIdentity(400),
    askIdentity: (deadlineMs) => {
      checksAt.push(checks)
      return askIdentity(says.isSilent === true ? 20 : deadlineMs)
    },
    clock: {
      ...osClock,
      after: (delayMs, fire) => {
        if (delayMs === 1) checks += 1
        return osClock.after(delayMs, fire)
      },
    },
    everyMs: 1,
    onLoad: () => undefined,
    onUnavailable: (error) => told.push(error?.message ?? null),
    onLost: ({ message }) => lost.push(message),
  })
  open.push(watch, client, server)
  watch.start()
  return { lost, told, client, asked: () => asked, checksAt }
}

function metricsOf(blockTokens: number, ranks: number): string {
  const engines = Array.from({ length: ranks }, (_, rank) => `{engine="${rank}"} 0\n`)
  const running = engines.map((engine) => `vllm:num_requests_running${engine}`).join('')
  return `${running}vllm:cache_config_info{block_size="${blockTokens}",num_gpu_blocks="9",engine="0"} 1\n`
}

describe('UpstreamWatch - another server at the address', () => {
  const props = { chat_template: 't', model_path: '/m', total_slots: 4 }
  it.each([
    ['another context', { models: [{ id: 'm', max_model_len: 8 }] }, 'max_model_len'],
    ['another model', { models: [{ id: 'n', max_model_len: 4 }] }, 'id'],
    ['another file', { props: { ...props, model_path: '/n' } }, 'model_path'],
    ['another template', { props: { ...props, chat_template: 'u' } }, 'chat_template'],
    ['another number of slots', { props: { ...props, total_slots: 1 } }, 'total_slots'],
    ['another role', { info: { disaggregation_mode: 'prefill' } }, 'disaggregation_mode'],
    ['another block size', { metrics: metricsOf(64, 1) }, 'block_size'],
    ['another number of ranks', { metrics: metricsOf(16, 2) }, 'data_parallel_ranks'],
  ])('%s - it is lost, although every check was answered', async (_, change, field) => {
    const says = {
      models: [{ id: 'm', max_model_len: 4 }] as object[],
      ...('props' in change ? { props: props as object } : {}),
      ...('info' in change ? { info: { disaggregation_mode: 'null' } as object } : {}),
      ...('metrics' in change ? { metrics: metricsOf(16, 1) } : {}),
    }
    const { lost } = await describedServer(says)
    Object.assign(says, change)
    await until('lost', () => lost.length > 0)
    expect(lost).toEqual([expect.stringMatching(`another server .* differs in ${field}\\b`)])
  })

  it('the server is asked who it is with every fifth check', async () => {
    const { checksAt } = await describedServer({ models: [{ id: 'm', max_model_len: 4 }] })
    await until('four questions', () => checksAt.length >= 4)
    expect(checksAt.slice(0, 4)).toEqual([5, 10, 15, 20])
  })

  it('its metrics are empty for a while - it stays', async () => {
    const says = { models: [{ id: 'm' }], metrics: metricsOf(16, 1) }
    const { lost, asked } = await describedServer(says)
    says.metrics = ''
    const before = asked()
    await until('3 more questions', () => asked() > before + 3)
    expect(lost).toEqual([])
  })

  it.each([401, 403])(
    'it refuses its frontend with %i - it gets no new requests until it does not, and the reason has its words',
    async (status) => {
      const says: Says = { models: [{ id: 'm' }] }
      const { lost, told } = await describedServer(says)
      says.refusal = status
      await until('no new requests', () => told.length > 0)
      expect(told).toEqual([expect.stringMatching(`status ${status}\\): Unauthorized`)])
      delete says.refusal
      await until('new requests', () => told.length > 1)
      expect([told[1], lost]).toEqual([null, []])
    },
  )

  it('it refuses a request of its frontend - it is asked at the next check', async () => {
    const { client, checksAt } = await describedServer({ models: [{ id: 'm' }] })
    await until('a question', () => checksAt.length > 0)
    const before = client.accessRefusals
    client.send({ method: 'POST', path: '/403', body: '{}' }, SINK)
    await until('the refusal', () => client.accessRefusals > before)
    await until('the next question', () => checksAt.some((at) => at % 5 !== 0))
  })

  it('it does not say who it is, or says it too late - it stays', async () => {
    const says: { models: object[]; isSilent?: boolean } = { models: [{ id: 'm' }] }
    const { lost, asked } = await describedServer(says)
    says.isSilent = true
    const before = asked()
    await until('20 more questions', () => asked() > before + 20)
    expect(lost).toEqual([])
  })

  it('other entries of its list, the time of an entry, no list - it stays', async () => {
    const says = { models: [{ id: 'm', created: 1 }] as object[] }
    const { lost, asked } = await describedServer(says)
    for (const models of [[{ id: 'a' }, { id: 'm', created: 2 }], []]) {
      says.models = models
      const before = asked()
      await until('3 more questions', () => asked() > before + 3)
    }
    expect(lost).toEqual([])
  })
})

/** A server that answers health checks, and whose load cannot be asked for. */
async function withoutLoad(error: () => BatonError | null) {
  const server = await fakeServer(() => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
  const lost: BatonError[] = []
  const notes: string[] = []
  const loads: number[] = []
  const says = { failed: 0 }
  const watch = new UpstreamWatch({
    client,
    dialect: {
      load: () => {
        const failure = error()
        if (failure !== null) {
          says.failed += 1
          return Promise.reject(failure)
        }
        return Promise.resolve([{ ...NO_LOAD, dpRank: 1, runningRequests: 3 }])
      },
    },
    clock: osClock,
    everyMs: 1,
    onLoad: ({ dpRank, runningRequests }) => loads.push(10 * dpRank + runningRequests),
    onUnavailable: () => undefined,
    onLost: (reason) => lost.push(reason),
    onNote: (note) => notes.push(note),
  })
  open.push(watch, client, server)
  watch.start()
  return { server, lost, notes, loads, says }
}

describe('UpstreamWatch - the load cannot be asked for', () => {
  it.each([
    ['no answer', new BatonError('backend.response_timeout', 'no answer to /metrics')],
    ['too long', new BatonError('transport.protocol', 'the answer to /metrics is too long')],
    ['closed', new BatonError('transport.disconnected', 'closed')],
  ])(
    '%s, while it is healthy - it stays, and the log says once that its load is unknown',
    async (_name, error) => {
      let failure: BatonError | null = null
      const { lost, notes, loads, says, server } = await withoutLoad(() => failure)
      await until('its load is told', () => loads.length > 0)
      failure = error
      await until('several failures', () => says.failed > 3)
      expect(lost).toEqual([])
      expect(server.seen.length).toBeGreaterThan(10)
      expect(notes).toEqual([
        `reports no load (${error.message}): routing counts only its own requests`,
      ])
      // What it has reported before is not true any more.
      expect(loads.at(-1)).toBe(10)
      failure = null
      await until('its load is told again', () => loads.at(-1) === 13)
      expect(notes.slice(1)).toEqual(['reports its load again'])
    },
  )
})

describe('UpstreamWatch', () => {
  it('a server that answers no health check - is lost after the third', async () => {
    const silent = await silentServer()
    silent.watch()
    await until('lost', () => silent.lost !== null)
    expect(silent.looks).toBe(3)
    expect(silent.lost?.code).toBe('backend.response_timeout')
  })

  it('one that continues to answer a request - is not lost until that stops as well', async () => {
    const silent = await silentServer()
    silent.client.send(RUN, SINK)
    await until('the request is there', () => silent.run !== null)
    silent.goesOn = true
    silent.watch()
    await until('7 health checks', () => silent.looks >= 7)
    expect(silent.lost).toBeNull()
    expect(silent.told).toEqual([])
    silent.goesOn = false
    await until('no new requests', () => silent.told.length > 0)
    expect(silent.lost).toBeNull()
  })

  it('one that is silent while it works on a request - gets no new ones, and keeps that request until it has ended', async () => {
    const silent = await silentServer()
    const run = silent.client.send(RUN, SINK)
    await until('the request is there', () => silent.run !== null)
    silent.watch()
    await until('7 health checks', () => silent.looks >= 7)
    expect(silent.lost).toBeNull()
    expect(silent.told.map((error) => error?.code)).toEqual(['backend.response_timeout'])
    run.abort()
    await until('lost', () => silent.lost !== null)
  })

  it('one that answers again - gets new requests, and keeps the running one', async () => {
    const silent = await silentServer()
    silent.client.send(RUN, SINK)
    await until('the request is there', () => silent.run !== null)
    silent.watch()
    await until('no new requests', () => silent.told.length === 1)
    silent.answers = true
    await until('the server accepts requests again', () => silent.told.length === 2)
    expect(silent.told[1]).toBeNull()
    expect(silent.lost).toBeNull()
    expect(silent.client.counters.inFlight).toBeGreaterThanOrEqual(1)
  })

  it('checks that are skipped because too much is in flight - have no effect', async () => {
    const silent = await silentServer(1)
    const run = silent.client.send(RUN, SINK)
    await until('the request is there', () => silent.run !== null)
    silent.watch()
    await until('10 health checks were refused', () => silent.client.counters.refused >= 10)
    expect(silent.looks).toBe(0)
    expect(silent.lost).toBeNull()
    run.abort()
    await until('lost', () => silent.lost !== null)
  })
})
