import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isRecord } from '../src/base/index.ts'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'
import { until } from './until.ts'

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly Attribute[]
  readonly events?: readonly { readonly name: string }[]
  readonly links?: readonly { readonly spanId: string }[]
  /** Process id, from the resource attributes that were sent with the span. */
  readonly pid: unknown
}

/** Receives the requests of an OTLP/HTTP exporter as JSON. */
class Receiver {
  readonly spans: Span[] = []
  readonly bodies: string[] = []
  readonly paths: (string | undefined)[] = []
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = []
      request.on('data', (piece: Buffer) => pieces.push(piece))
      request.on('end', () => {
        this.paths.push(request.url)
        const body = Buffer.concat(pieces).toString('utf8')
        this.bodies.push(body)
        this.spans.push(...spansIn(JSON.parse(body)))
        response.setHeader('content-type', 'application/json').end('{}')
      })
    })
  }

  static async start(): Promise<Receiver> {
    const receiver = new Receiver()
    await new Promise<void>((resolve) => {
      receiver.#server.listen(0, '127.0.0.1', resolve)
    })
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  of(traceId: string): Span[] {
    return this.spans.filter((span) => span.traceId === traceId)
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

function spansIn(body: unknown): Span[] {
  const under = (value: unknown, key: string): unknown[] =>
    isRecord(value) && Array.isArray(value[key]) ? (value[key] as unknown[]) : []
  return under(body, 'resourceSpans').flatMap((sent) => {
    const { resource } = sent as { readonly resource: Pick<Span, 'attributes'> }
    const pid = Number(valueOf(resource, 'process.pid'))
    const spans = under(sent, 'scopeSpans').flatMap((scope) => under(scope, 'spans')) as Span[]
    return spans.map((span) => ({ ...span, pid }))
  })
}

const valueOf = (span: Pick<Span, 'attributes'> | undefined, key: string): unknown => {
  const value = span?.attributes.find((attribute) => attribute.key === key)?.value
  return value === undefined ? undefined : Object.values(value)[0]
}

describe('traces of baton serve at an OTLP receiver', () => {
  let receiver: Receiver
  let server: RunningServer

  beforeAll(async () => {
    receiver = await Receiver.start()
    server = await startServer(['--prefill', '1', '--decode', '1'], {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_SERVICE_NAME: 'acme',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    })
  })

  afterAll(async () => {
    await server.stop()
    receiver.close()
  })

  async function ask(headers: Record<string, string> = {}): Promise<void> {
    const reply = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'Tell me a story. '.repeat(60) }],
        max_tokens: 8,
      }),
    })
    expect(reply.status).toBe(200)
    await reply.text()
  }

  it("a disaggregated request - continues the client's trace, with every phase once inside the call's span", async () => {
    const traceId = 'a1'.repeat(16)
    const parent = 'b2'.repeat(8)
    await ask({ traceparent: `00-${traceId}-${parent}-01` })
    await until('the spans of three processes', () => {
      const names = receiver.of(traceId).map(({ name }) => name)
      return ['chat storyteller', 'worker prefill', 'worker decode'].every((name) =>
        names.includes(name),
      )
    })
    const all = receiver.of(traceId)
    const spans = all.filter(({ name }) => !name.startsWith('worker '))
    const root = spans.find(({ name }) => name.startsWith('chat '))
    expect(root?.parentSpanId).toBe(parent)
    expect(valueOf(root, 'gen_ai.usage.output_tokens')).toBe(8)
    expect(root?.events?.map(({ name }) => name)).toEqual(['first_token'])
    const phases = spans.filter((span) => span !== root)
    for (const { parentSpanId } of phases) expect(parentSpanId).toBe(root?.spanId)
    expect(new Set(phases.map(({ name }) => name))).toEqual(
      new Set([
        'tokenize',
        'queue',
        'route',
        'prefill_queue',
        'prefill',
        'kv_transfer',
        'decode_queue',
        'decode',
      ]),
    )
    const routes = phases.filter(({ name }) => name === 'route')
    expect(routes.map((span) => valueOf(span, 'baton.phase'))).toEqual(['prefill', 'decode'])
    expect(routes.map((span) => typeof valueOf(span, 'baton.route.reason'))).toEqual([
      'string',
      'string',
    ])
    const [prefill, decode] = ['worker prefill', 'worker decode'].map((name) =>
      all.find((span) => span.name === name),
    )
    expect([prefill?.parentSpanId, decode?.parentSpanId]).toEqual([root?.spanId, root?.spanId])
    expect(new Set([root?.pid, prefill?.pid, decode?.pid]).size).toBe(3)
    expect(server.workerPids).toEqual(expect.arrayContaining([prefill?.pid, decode?.pid]))
    expect(valueOf(decode, 'gen_ai.usage.output_tokens')).toBe(8)
    const below = (parent: Span | undefined): string[] =>
      all.filter(({ parentSpanId }) => parentSpanId === parent?.spanId).map(({ name }) => name)
    expect(below(prefill)).toEqual(['worker queue', 'worker first_token', 'worker offer'])
    expect(below(decode)).toEqual([
      'worker kv_take',
      'worker queue',
      'worker first_token',
      'worker output',
    ])
    for (const span of all) {
      expect(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano)).toBe(true)
    }
    expect(receiver.paths[0]).toBe('/v1/traces')
    expect(receiver.bodies.join('')).toContain('"acme"')
    expect(receiver.bodies.join('')).not.toContain('Tell me a story')
  })

  it('a client that does not sample - Baton does not sample either', async () => {
    const unsampled = 'c3'.repeat(16)
    const sampled = 'd4'.repeat(16)
    await ask({ traceparent: `00-${unsampled}-${'b2'.repeat(8)}-00` })
    await ask({ traceparent: `00-${sampled}-${'b2'.repeat(8)}-01` })
    await until('the spans', () => receiver.of(sampled).length > 0)
    expect(receiver.of(unsampled)).toEqual([])
  })

  it('a client that leaves while its request waits for a worker - the wait is a span', async () => {
    const fleet = await startServer(['--engine', 'sim', '--aggregated', '1', '--sequences', '1'], {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    })
    const start = async (traceId: string, signal: AbortSignal) =>
      await fetch(`${fleet.url}/v1/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          traceparent: `00-${traceId}-${'b2'.repeat(8)}-01`,
        },
        body: JSON.stringify({ prompt: 'hi', max_tokens: 4000, ignore_eos: true, stream: true }),
        signal,
      })
    const clients = ['1', '2', '3', '4', '5', '6'].map((digit) => ({
      traceId: digit.repeat(32),
      leaving: new AbortController(),
    }))
    const waiting = async (): Promise<boolean> => {
      const reply = await fetch(`${fleet.url}/debug/requests`)
      const { requests } = (await reply.json()) as {
        requests: { phases: { kind: string }[]; end?: unknown }[]
      }
      const open = requests.filter(({ end }) => (end ?? null) === null)
      const queued = open.filter(({ phases }) => phases.at(-1)?.kind === 'prefillQueued')
      return open.length === clients.length && queued.length > 0
    }
    try {
      const asked = clients.map(
        async ({ traceId, leaving }) => await start(traceId, leaving.signal).catch(() => null),
      )
      await until('a request that waits', waiting)
      for (const { leaving } of clients) leaving.abort()
      await Promise.all(asked)
      await until('the traces', () =>
        clients.every(({ traceId }) =>
          receiver.of(traceId).some(({ name }) => name.startsWith('text_completion ')),
        ),
      )
    } finally {
      await fleet.stop()
    }
    const waits = clients
      .map(({ traceId }) => receiver.of(traceId))
      .filter((spans) => spans.every(({ name }) => name !== 'route'))
      .map((spans) => spans.find(({ name }) => name === 'queue'))
    expect(waits.length).toBeGreaterThan(0)
    for (const wait of waits) {
      expect(valueOf(wait, 'baton.incomplete')).toBe(true)
      expect(Number(wait?.endTimeUnixNano)).toBeGreaterThan(Number(wait?.startTimeUnixNano))
    }
  })

  it('a worker that dies during a request - one trace, whose next route links to the lost leg', async () => {
    const fleet = await startServer(['--engine', 'sim', '--aggregated', '2'], {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '50',
    })
    const traceId = 'e5'.repeat(16)
    try {
      const reply = await fetch(`${fleet.url}/v1/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          traceparent: `00-${traceId}-${'b2'.repeat(8)}-01`,
        },
        body: JSON.stringify({
          model: 'storyteller',
          prompt: 'hi',
          max_tokens: 200,
          stream: true,
          nvext: { extra_fields: ['worker_id'] },
        }),
      })
      let text = ''
      let isKilled = false
      for await (const bytes of reply.body ?? []) {
        text += Buffer.from(bytes).toString()
        const workerId = /"decode_worker_id":(\d+)/.exec(text)?.[1]
        if (isKilled || workerId === undefined) continue
        isKilled = true
        const pid = new RegExp(`pid (\\d+) .* id ${workerId}`).exec(fleet.printed())?.[1]
        process.kill(Number(pid), 'SIGKILL')
      }
      expect(text).toContain('[DONE]')
      await until('the spans', () =>
        receiver.of(traceId).some(({ name }) => name.startsWith('text_completion ')),
      )
    } finally {
      await fleet.stop()
    }
    const spans = receiver.of(traceId)
    const migrate = spans.find(({ name }) => name === 'migrate')
    const routes = spans.filter(({ name }) => name === 'route')
    const linked = migrate?.links?.[0]?.spanId
    expect(routes).toHaveLength(2)
    expect(spans.map(({ spanId }) => spanId)).toContain(linked)
    expect(routes.map(({ links = [] }) => links.map(({ spanId }) => spanId))).toEqual([
      [],
      [linked],
    ])
  })
})
