import { describe, expect, it, onTestFinished } from 'vitest'

import { until } from '../../../test/until.ts'
import { kvOf } from '../../../test/wire/boostr-toy.ts'
import type { PrefillFunction } from '../protocol/boostr-prefill-worker.ts'
import { createDisaggConfig } from '../protocol/disagg-config.ts'
import { boostrHealth } from './boostr-health.ts'
import { listenBoostrHttp } from './boostr-http.ts'
import { hostBoostrDecode, hostBoostrPrefill, hostBoostrRouter } from './boostr-roles.ts'
import type { HostedBoostr } from './boostr-roles.ts'

const LIMITS = { peers: 'baton', maxKvTransferBytes: 1_000 } as const
const RANKS = [0, 1, 2]

async function hosted<N>(hosting: Promise<HostedBoostr<N>>): Promise<HostedBoostr<N>> {
  const one = await hosting
  onTestFinished(() => one.mesh.close())
  return one
}

async function startRouter(maxTokensMax = 0xffffffff) {
  const ranks = { prefillWorkers: [1], decodeWorkers: [2], routerRank: 0 }
  const config = createDisaggConfig({ ...ranks, maxKvTransferBytes: 1_000 })
  const limits = { prefillMs: 60_000, tokenMs: 60_000, queueMax: 10, affinityMax: 10 }
  const { node: router, mesh } = await hosted(
    hostBoostrRouter({ redialMs: 20 }, { ...LIMITS, config, ...limits }),
  )
  const onFault = (): void => undefined
  const listen = { host: '127.0.0.1', port: 0, maxTokensMax }
  const server = await listenBoostrHttp({
    ...listen,
    router,
    health: () => boostrHealth(config, mesh),
    onFault,
  })
  onTestFinished(async () => void (await server.close(0)))
  const ask = (
    maxTokens?: number,
    signal: AbortSignal | null = null,
    prompt: unknown = [1],
  ): Promise<Response> =>
    fetch(`http://127.0.0.1:${server.port}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ prompt, max_tokens: maxTokens }),
      signal,
    })
  return { router, mesh, ask }
}

async function startFleet(prefill: PrefillFunction) {
  const decodeStep = (kv: Uint8Array) => ({ tokenId: 1n, kv })
  const decode = await hosted(
    hostBoostrDecode({ rank: 2, ranks: RANKS }, { ...LIMITS, decodeStep, kvWaitMs: 60_000 }),
  )
  const options = { ...LIMITS, prefill, decodeWorkers: [2], ackMs: 60_000, parkedMax: 10 }
  const prefillWorker = await hosted(hostBoostrPrefill({ rank: 1, ranks: RANKS }, options))
  prefillWorker.mesh.dial(2, decode.mesh.host, decode.mesh.port)
  const { router, mesh, ask } = await startRouter()
  mesh.dial(1, prefillWorker.mesh.host, prefillWorker.mesh.port)
  mesh.dial(2, decode.mesh.host, decode.mesh.port)
  await Promise.all([prefillWorker.mesh.reached(2), mesh.reached(1), mesh.reached(2)])
  return { router, decode, ask }
}

describe('the HTTP side of a router', () => {
  it('more max_tokens than the limit - is refused with the limit, and the limit itself is not', async () => {
    const { ask } = await startRouter(100)
    const errorOf = async (maxTokens?: number) => {
      const reply = await ask(maxTokens)
      const { error } = (await reply.json()) as { error: object }
      return { status: reply.status, ...error }
    }
    // Without max_tokens, a request asks for no more than the limit.
    for (const right of [100, undefined]) {
      const error = { status: 503, code: 'backend.worker_unavailable' }
      expect(await errorOf(right)).toMatchObject(error)
    }
    for (const wrong of [101, 0xffffffff]) {
      expect(await errorOf(wrong)).toMatchObject({
        status: 400,
        code: 'request.invalid_argument',
        message: expect.stringContaining('at most 100'),
      })
    }
  })

  it('a body that would take seconds to parse - is refused with its excess', async () => {
    const { ask } = await startRouter()
    let nested: unknown = []
    for (let depth = 1; depth < 1000; depth++) nested = [nested]
    for (const [prompt, message] of [
      [nested, 'the JSON body is nested more than 1000 deep'],
      [Array(262_145).fill(''), 'the JSON body holds more than 262144 values'],
    ]) {
      const reply = await ask(1, null, prompt)
      const error = { code: 'request.invalid_argument', message }
      expect([reply.status, await reply.json()]).toMatchObject([400, { error }])
    }
  })

  it('a client that leaves - its sequence stops on the decode worker', async () => {
    const { router, decode, ask } = await startFleet((ids, done) => done(kvOf(ids)))
    const leaving = new AbortController()
    const left = ask(0xffffffff, leaving.signal).catch(() => 'left')
    await until('a sequence', () => decode.node.hasWork)
    leaving.abort()
    expect(await left).toBe('left')
    await until('its end', () => router.load === 0 && decode.node.load === 0)
  })

  it('a prompt that no message has room for - 413, and the prompts that are being computed are answered', async () => {
    const waiting: (() => void)[] = []
    const { router, ask } = await startFleet((ids, done) => waiting.push(() => done(kvOf(ids))))
    const innocent = ask(2)
    await until('its prefill', () => waiting.length === 1)
    const refused = await ask(2, null, 'x'.repeat((64 * 1024 ** 2) / 8 + 1))
    expect([refused.status, await refused.json()]).toMatchObject([
      413,
      {
        error: {
          code: 'request.payload_too_large',
          message: expect.stringContaining('at most 8388608'),
        },
      },
    ])
    expect(router.load).toBe(1)
    waiting[0]?.()
    expect(await (await innocent).json()).toEqual({ tokens: [1, 1], token_count: 2 })
  })
})
