import { describe, expect, it } from 'vitest'
import type { KvEvent, LoadReport } from '../../kv/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import { RequestContext } from '../../engine/generate-context.ts'
import type { SimEngine } from './sim-engine.ts'
import { collect, requestOf, started, tokensOf } from '../../../test/simengine/started-engine.ts'

describe('SimEngine - generation', () => {
  it('gives one token per step, the last one with finish and usage', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock)
    const chunks = await clock.runUntil(collect(engine, requestOf('a', 100, 3)))
    expect(chunks.map((chunk) => chunk.tokenIds.length)).toEqual([1, 1, 1])
    expect(chunks[2]).toMatchObject({
      finish: 'length',
      usage: { promptTokens: 100, completionTokens: 3, totalTokens: 103, cachedTokens: 0 },
    })
    expect(clock.nowMs()).toBeCloseTo(18.023974 + 5.745202 + 5.745254, 4)
    for (const id of tokensOf(chunks)) expect(id >= 1000 && id < 2000).toBe(true)
  })

  it('needs no timer when it is instantaneous', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { speedupRatio: 'instantaneous' })
    const chunks = await collect(engine, requestOf('a', 100, 40))
    expect(tokensOf(chunks)).toHaveLength(40)
    expect(clock.nextMs).toBeNull()
  })

  it('runs requests of the same event-loop turn in one step', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock)
    const all = ['a', 'b', 'c'].map((id) => collect(engine, requestOf(id, 8, 5)))
    await clock.runUntil(Promise.all(all))
    expect(clock.nowMs()).toBeLessThan(17 + 4 * 6)
  })

  it('generates the same output after a migration, and another with another seed', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { speedupRatio: 'instantaneous' })
    const request = requestOf('a', 50, 20)
    const whole = tokensOf(await collect(engine, request))
    const tokenIds = Uint32Array.from([...request.tokenIds, ...whole.slice(0, 7)])
    const rest = await collect(engine, requestOf('a', 0, 13, { tokenIds, resumedTokens: 7 }))
    expect(tokensOf(rest)).toEqual(whole.slice(7))
    const seeded = await collect(engine, { ...request, sampling: { seed: 9 } })
    expect(tokensOf(seeded)).not.toEqual(whole)
  })

  it('ends at a stop token, hidden or shown, and not before minTokens', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { speedupRatio: 'instantaneous' })
    const request = requestOf('a', 50, 20)
    const whole = tokensOf(await collect(engine, request))
    const stopTokenIds = [whole[4]!]
    const hidden = await collect(engine, { ...request, stop: { maxTokens: 20, stopTokenIds } })
    expect(tokensOf(hidden)).toEqual(whole.slice(0, 4))
    expect(hidden.at(-1)).toMatchObject({ finish: 'stop', stopReason: whole[4] })
    const shown = { maxTokens: 20, stopTokenIds, includeStopInOutput: true }
    expect(tokensOf(await collect(engine, { ...request, stop: shown }))).toEqual(whole.slice(0, 5))
    const late = { maxTokens: 20, stopTokenIds, minTokens: 5 }
    expect(tokensOf(await collect(engine, { ...request, stop: late }))).toEqual(whole)
    const ended = await collect(engine, { ...request, eosTokenIds: stopTokenIds })
    expect(ended.at(-1)?.finish).toBe('eos')
    const on = await collect(engine, {
      ...request,
      eosTokenIds: stopTokenIds,
      stop: { maxTokens: 20, ignoreEos: true },
    })
    expect(tokensOf(on)).toEqual(whole)
  })

  it('generates a script exactly, with reasoning before the answer', async () => {
    const clock = new VirtualClock()
    const scripted = await started(clock, {
      speedupRatio: 'instantaneous',
      scriptFor: () => [7, 8, 9],
    })
    const said = await collect(scripted, requestOf('a', 10, 20))
    expect(tokensOf(said)).toEqual([7, 8, 9])
    expect(said.at(-1)?.finish).toBe('eos')
    expect(tokensOf(await collect(scripted, requestOf('b', 10, 2)))).toEqual([7, 8])
    const stop = { maxTokens: 20, stopTokenIds: [8] }
    expect(tokensOf(await collect(scripted, requestOf('c', 10, 20, { stop })))).toEqual([7])

    const reasoning = { startTokenId: 5, endTokenId: 6, ratio: 0.5 }
    const thinking = await started(clock, { speedupRatio: 'instantaneous', reasoning })
    const tokens = tokensOf(await collect(thinking, requestOf('a', 10, 8)))
    expect([tokens.indexOf(5), tokens.indexOf(6), tokens.length]).toEqual([0, 3, 8])
  })

  it('reports logprobs for each token if requested', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { speedupRatio: 'instantaneous' })
    const chunks = await collect(engine, requestOf('a', 5, 3, { output: { logprobs: 2 } }))
    for (const chunk of chunks) {
      expect(chunk.logprobs).toHaveLength(1)
      expect(chunk.logprobs![0]!.top).toHaveLength(2)
      expect(chunk.logprobs![0]!.tokenId).toBe(chunk.tokenIds[0])
    }
  })

  it('finds a repeated prompt in its cache and reports it', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { speedupRatio: 'instantaneous' })
    await collect(engine, requestOf('a', 640, 2))
    const again = await collect(engine, requestOf('b', 640, 2))
    expect(again.at(-1)?.usage?.cachedTokens).toBe(576)
  })

  it('refuses requests that can never fit', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { contextLength: 100 })
    await expect(collect(engine, requestOf('a', 100, 5))).rejects.toMatchObject({
      code: 'request.context_length_exceeded',
    })
    await expect(collect(engine, requestOf('a', 0, 5))).rejects.toMatchObject({
      code: 'backend.invalid_argument',
    })
  })
})

describe('SimEngine - roles', () => {
  it('prefill hands over, and decode continues with the output of an aggregated run', async () => {
    const clock = new VirtualClock()
    const transfer = { kvBytesPerToken: 1e6, kvTransferBandwidth: 1 }
    const aggregated = await started(clock)
    const prefill = await started(clock, { mode: 'prefill' })
    const decode = await started(clock, { mode: 'decode', ...transfer })
    const request = requestOf('a', 128, 5)
    const expected = tokensOf(await clock.runUntil(collect(aggregated, request)))
    const [end] = await clock.runUntil(collect(prefill, request))
    expect(end).toMatchObject({ tokenIds: [], finish: 'length' })
    expect(end!.prefillResult!.engineParams).toBeDefined()
    const beganMs = clock.nowMs()
    const chunks = await clock.runUntil(
      collect(decode, { ...request, prefillResult: end!.prefillResult! }),
    )
    expect(tokensOf(chunks)).toEqual(expected)
    expect(chunks.at(-1)?.usage?.cachedTokens).toBe(0)
    // 128 ms of transfer, then five decode steps and no prefill.
    expect(clock.nowMs() - beganMs).toBeGreaterThan(128 + 5 * 5.74)
    expect(clock.nowMs() - beganMs).toBeLessThan(128 + 5 * 5.8)
  })

  it('reports the cached tokens of the prefill worker', async () => {
    const clock = new VirtualClock()
    const prefill = await started(clock, { mode: 'prefill', speedupRatio: 'instantaneous' })
    const decode = await started(clock, { mode: 'decode', speedupRatio: 'instantaneous' })
    const seen: (number | undefined)[] = []
    for (const id of ['a', 'b']) {
      const request = requestOf(id, 200, 3)
      const [end] = await collect(prefill, request)
      const chunks = await collect(decode, { ...request, prefillResult: end!.prefillResult! })
      seen.push(chunks.at(-1)?.usage?.cachedTokens)
    }
    expect(seen).toEqual([0, 192])
  })

  it('decode without a prefill result computes the prompt itself', async () => {
    const clock = new VirtualClock()
    const decode = await started(clock, { mode: 'decode' })
    await clock.runUntil(collect(decode, requestOf('a', 100, 1)))
    expect(clock.nowMs()).toBeCloseTo(18.023974, 5)
  })
})

describe('SimEngine - waiting', () => {
  it('a transfer in progress - does not delay a new request', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, {
      mode: 'decode',
      kvBytesPerToken: 1e6,
      kvTransferBandwidth: 0.1,
    })
    const endedAt: Record<string, number> = {}
    const run = async (request: GenerateRequest): Promise<void> => {
      await collect(engine, request)
      endedAt[request.requestId] = clock.nowMs()
    }
    // 100 tokens of 1 MB at 0.1 GB/s.
    const slow = run(requestOf('slow', 100, 1, { prefillResult: {} }))
    await clock.run(10)
    await clock.runUntil(Promise.all([slow, run(requestOf('quick', 100, 1))]))
    expect(endedAt['quick']).toBeLessThan(100)
    expect(endedAt['slow']).toBeGreaterThan(1000)
  })
})

describe('SimEngine - ends', () => {
  it('a stop between tokens - ends with cancelled and frees the blocks', async () => {
    const clock = new VirtualClock()
    const loads: LoadReport[] = []
    const engine = await started(clock)
    engine.observe({ kvEvents: () => undefined, load: (report) => loads.push(report) })
    const context = new RequestContext('a')
    clock.after(40, () => context.stop())
    const chunks = await clock.runUntil(collect(engine, requestOf('a', 100, 500), context))
    expect(chunks.at(-1)?.finish).toBe('cancelled')
    expect(chunks.at(-1)?.usage?.completionTokens).toBe(chunks.length - 1)
    await clock.run()
    expect(loads.at(-1)).toMatchObject({ activeBlocks: 0, runningRequests: 0, queuedRequests: 0 })
  })

  it('a dropped stream - frees the blocks', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock)
    const drop = async (): Promise<void> => {
      for await (const chunk of engine.generate(requestOf('a', 100, 500), new RequestContext('a')))
        if (chunk.tokenIds.length > 0) return
    }
    await clock.runUntil(drop())
    expect(engine.isQuiescent()).toBe(true)
    await clock.runUntil(engine.drain())
    await clock.run()
  })

  it('cleanup - ends live streams with a typed error and can be called again', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock)
    const reply = collect(engine, requestOf('a', 100, 500))
    clock.after(30, () => void engine.cleanup())
    await expect(clock.runUntil(reply)).rejects.toMatchObject({ code: 'backend.engine_shutdown' })
    await engine.cleanup()
    expect(clock.nextMs).toBeNull()
  })

  it('injected faults - occur as configured', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { allowRequestFaults: true })
    const fail = { kind: 'fail', atToken: 2, code: 'backend.worker_unavailable' }
    const seen: number[] = []
    const read = async (extra: Record<string, unknown>): Promise<void> => {
      for await (const chunk of engine.generate(
        requestOf('a', 10, 6, { extra }),
        new RequestContext('a'),
      ))
        seen.push(...chunk.tokenIds)
    }
    await expect(clock.runUntil(read({ simFault: fail }))).rejects.toMatchObject({
      code: fail.code,
    })
    expect(seen).toHaveLength(2)
    const beganMs = clock.nowMs()
    await clock.runUntil(read({ simFault: { kind: 'slow', restMs: 100 } }))
    expect(clock.nowMs() - beganMs).toBeGreaterThan(500)
    let hasEnded = false
    void read({ simFault: { kind: 'hang', atToken: 1 } }).then(() => (hasEnded = true))
    await clock.run()
    expect(hasEnded).toBe(false)
    expect(seen).toHaveLength(2 + 6 + 1)
  })
})

describe('SimEngine - KV events', () => {
  it('reports stored blocks with their parents, and nothing on a decode worker', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { speedupRatio: 'instantaneous', blockTokens: 16 })
    const events: KvEvent[] = []
    engine.observe({ kvEvents: (_rank, list) => events.push(...list), load: () => undefined })
    await collect(engine, requestOf('a', 40, 30))
    expect(events.map((event) => event.kind)).toEqual(['stored', 'stored', 'stored'])
    const [first, second] = events as Extract<KvEvent, { kind: 'stored' }>[]
    expect(first!.parent).toBeNull()
    expect(first!.hashes).toHaveLength(4)
    expect(second!.parent).toEqual([first!.hashes[2], first!.hashes[3]])
    await engine.controls.clear_kv_blocks!({})
    expect(events.at(-1)).toEqual({ kind: 'cleared' })

    const decode = await started(clock, { mode: 'decode', speedupRatio: 'instantaneous' })
    decode.observe({ kvEvents: () => expect.unreachable(), load: () => undefined })
    await collect(decode, requestOf('a', 100, 3))
  })
})

describe('SimEngine - offload tiers', () => {
  it('copies that arrive while the engine is idle are reported; fetched blocks count as cached', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, {
      blockTokens: 16,
      blockCount: 8,
      kvBytesPerToken: 1e6,
      offload: { hostBlocks: 20, bandwidth: { deviceToHost: 0.01 } },
    })
    const tiers: string[] = []
    const kvEvents = (_rank: number, events: readonly KvEvent[]): void => {
      for (const event of events) if (event.kind === 'stored') tiers.push(event.tier)
    }
    engine.observe({ kvEvents, load: () => undefined })
    await clock.runUntil(collect(engine, requestOf('a', 100, 1)))
    expect(tiers).toEqual(['device'])
    // Six blocks of 16 MB at 0.01 GB/s: the first alone, then five together.
    await clock.run(clock.nowMs() + 20_000)
    expect(tiers).toEqual(['device', 'host', 'host'])
    const other = requestOf('b', 100, 1, { tokenIds: new Uint32Array(100).fill(7) })
    await clock.runUntil(collect(engine, other))
    const again = await clock.runUntil(collect(engine, requestOf('c', 100, 1)))
    expect(again.at(-1)?.usage?.cachedTokens).toBe(96)
    const offloaded = engine.metrics().filter(({ name }) => name === 'kv_blocks_offloaded')
    expect(offloaded.map(({ labels, value }) => [labels?.['tier'], value])).toEqual([
      ['host', 6],
      ['disk', 0],
    ])
  })
})

describe('SimEngine - embeddings', () => {
  it('takes the time of the prompt, caches nothing, is the same everywhere; common tokens make it similar', async () => {
    const clock = new VirtualClock()
    const [engine, other] = [await started(clock), await started(clock, { mode: 'prefill' })]
    const events: KvEvent[] = []
    engine.observe({ kvEvents: (_rank, list) => void events.push(...list), load: () => {} })
    const embed = (of: SimEngine, id: string, tokenIds: number[]) => {
      const request = requestOf(id, 0, null, {
        kind: 'embed',
        tokenIds: Uint32Array.from(tokenIds),
      })
      return clock.runUntil(of.embed(request, new RequestContext(id)))
    }
    const long = Array.from({ length: 200 }, (_, i) => i)
    const first = await embed(engine, 'a', long)
    expect(clock.nowMs()).toBeGreaterThan(0)
    expect(events).toEqual([])
    expect(await embed(other, 'b', long)).toEqual(first)
    const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, x, i) => sum + x * b[i]!, 0)
    expect(dot(first, first)).toBeCloseTo(1, 5)
    const near = await embed(engine, 'c', [...long.slice(0, 190), 900])
    const far = await embed(engine, 'd', [901, 902, 903])
    expect(dot(first, near)).toBeGreaterThan(0.9)
    expect(Math.abs(dot(first, far))).toBeLessThan(0.5)
  })
})
