import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { hashBlocks, hashesToBigints } from '../../kv/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import { RequestContext } from '../../engine/generate-context.ts'
import { SimEngine } from './sim-engine.ts'
import { kvBroadcastBatch } from './sim-kv-broadcast.ts'
import type { KvBroadcastPorts, SimKvBroadcast } from './sim-kv-broadcast.ts'
import type { SimEngineOptions } from './sim-options.ts'

class Collected implements SimKvBroadcast {
  readonly listens: KvBroadcastPorts[] = []
  readonly batches: (readonly [number, readonly unknown[][], number])[] = []
  closed = 0

  listen(ports: KvBroadcastPorts): Promise<{ events: string[]; replay: string[] }> {
    this.listens.push(ports)
    return Promise.resolve({ events: ['tcp://here:1'], replay: [] })
  }

  publish(dpRank: number, batch: readonly unknown[]): void {
    expect(batch[2]).toBe(dpRank)
    this.batches.push(batch as (typeof this.batches)[number])
  }

  close(): Promise<void> {
    this.closed += 1
    return Promise.resolve()
  }

  get events(): unknown[][] {
    return this.batches.flatMap(([, events]) => events)
  }
}

function engineOf(broadcast: SimKvBroadcast, options: Partial<SimEngineOptions> = {}) {
  const clock = new VirtualClock()
  const engine = new SimEngine({
    clock,
    model: 'sim',
    blockTokens: 4,
    kvEventsPort: 5557,
    kvBroadcast: broadcast,
    ...options,
  })
  const run = async (tokenIds: readonly number[], change: Partial<GenerateRequest> = {}) => {
    const request: GenerateRequest = {
      requestId: 'a',
      model: 'sim',
      tokenIds: Uint32Array.from(tokenIds),
      sampling: {},
      stop: { maxTokens: 6 },
      output: {},
      eosTokenIds: [],
      routing: {},
      ...change,
    }
    const out: number[] = []
    const reading = (async () => {
      for await (const chunk of engine.generate(request, new RequestContext('a')))
        out.push(...chunk.tokenIds)
    })()
    await clock.runUntil(reading)
    return out
  }
  return { clock, engine, run }
}

const PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9]

describe('SimEngine - KV events for external subscribers', () => {
  it('publishes blocks of prompt and output with their tokens, even without a worker listening', async () => {
    const told = new Collected()
    const { engine, run } = engineOf(told, { kvReplayPort: 5558, dataParallelSize: 2 })
    const config = await engine.start(workerIdOf(1))
    expect(told.listens).toEqual([{ events: 5557, replay: 5558, ranks: 2 }])
    expect(config.runtimeData).toEqual({
      kvEventsEndpoints: ['tcp://here:1'],
      kvReplayEndpoints: [],
    })
    const out = await run(PROMPT, { routing: { dpRank: 1 } })
    const all = Uint32Array.from([...PROMPT, ...out])
    const [h0, h1, h2] = hashesToBigints(hashBlocks(all, 4).sequence)
    expect(told.batches.every(([ts, , rank]) => ts >= 0 && rank === 1)).toBe(true)
    expect(told.events).toEqual([
      ['BlockStored', [h0, h1], null, PROMPT.slice(0, 8), 4, null, 'GPU', null],
      ['BlockStored', [h2], h1, [9, ...out.slice(0, 3)], 4, null, 'GPU', null],
    ])
    await engine.controls['clear_kv_blocks']!({})
    expect(told.events.at(-1)).toEqual(['AllBlocksCleared'])
    await engine.cleanup()
    await engine.cleanup()
    expect(told.closed).toBe(2)
  })

  it('names adapter and salt where the hash includes them', async () => {
    const told = new Collected()
    const { engine, run } = engineOf(told)
    await engine.start(workerIdOf(1))
    const routing = { loraName: 'tuned', cacheSalt: 'tenant' }
    const out = await run(PROMPT, { routing })
    const all = Uint32Array.from([...PROMPT, ...out])
    const { sequence } = hashBlocks(all, 4, { loraName: 'tuned', salt: 'tenant' })
    const [h0, h1, h2] = hashesToBigints(sequence)
    expect(told.events.map((event) => [event[1], event[2], ...event.slice(7)])).toEqual([
      [[h0, h1], null, 'tuned', [['tuned', 'tenant'], ['tuned']]],
      [[h2], h1, 'tuned', [['tuned']]],
    ])
  })

  it('publishes the tokens of blocks in every tier', async () => {
    const told = new Collected()
    const offload = { hostBlocks: 8, diskBlocks: 8, bandwidth: {} }
    const { engine, run } = engineOf(told, { offload, blockCount: 4 })
    await engine.start(workerIdOf(1))
    await run(PROMPT, { stop: { maxTokens: 1 } })
    await run([11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23], { stop: { maxTokens: 1 } })
    const ofMedium = (medium: string) => told.events.filter((event) => event[6] === medium)
    const tokens = (medium: string) => ofMedium(medium).flatMap((event) => event[3])
    const both = [...PROMPT.slice(0, 8), 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]
    expect(tokens('GPU')).toEqual(both)
    expect(tokens('CPU_PINNED').slice(0, 8)).toEqual(PROMPT.slice(0, 8))
    expect(tokens('DISK').slice(0, 8)).toEqual(PROMPT.slice(0, 8))
    const removed = told.events.filter(([name]) => name === 'BlockRemoved')
    expect(removed.map((event) => event[2])).toContain('GPU')
  })

  it('publishes nothing on a decode worker, and nothing without a port', async () => {
    for (const options of [{ mode: 'decode' as const }, { kvEventsPort: undefined }]) {
      const told = new Collected()
      const { engine, run } = engineOf(told, options as Partial<SimEngineOptions>)
      await engine.start(workerIdOf(1))
      await run(PROMPT)
      expect([told.listens, told.batches]).toEqual([[], []])
    }
  })

  it.each([
    [{ kvEventsPort: 1 }, 'kvBroadcast'],
    [{ kvReplayPort: 1, kvBroadcast: new Collected() }, 'kvReplayPort needs kvEventsPort'],
    [{ kvEventsPort: 1, kvBroadcast: new Collected(), prefixCaching: false }, 'prefixCaching'],
  ])('refuses %o', (options, word) => {
    const make = () => new SimEngine({ clock: new VirtualClock(), model: 'sim', ...options })
    expect(make).toThrow(word)
  })
})

describe('kvBroadcastBatch', () => {
  it('as maps - the same fields by name', () => {
    const at = { epochMs: 1500, dpRank: 3, blockTokens: 4 }
    const removed = {
      kind: 'removed' as const,
      hashes: Uint32Array.of(5, 0),
      tier: 'device' as const,
    }
    expect(kvBroadcastBatch([{ kind: 'cleared' }, removed], at, 'map')).toEqual([
      1.5,
      [{ type: 'AllBlocksCleared' }, { type: 'BlockRemoved', block_hashes: [5n], medium: 'GPU' }],
      3,
    ])
  })

  it('keeps all 64 bits of a hash, the time in seconds and the medium of each tier', () => {
    const hashes = Uint32Array.of(0xffffffff, 0xffffffff, 1, 0)
    const events = (['device', 'host', 'disk'] as const).map((tier) => ({
      kind: 'removed' as const,
      hashes,
      tier,
    }))
    expect(kvBroadcastBatch(events, { epochMs: 1500, dpRank: 3, blockTokens: 4 })).toEqual([
      1.5,
      ['GPU', 'CPU_PINNED', 'DISK'].map((medium) => ['BlockRemoved', [2n ** 64n - 1n, 1n], medium]),
      3,
    ])
  })
})
