/** KV events of foreign engines: recorded payloads, and a real publisher over ZeroMQ that loses, restarts and comes late. */
import { readdirSync, readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { fileURLToPath } from 'node:url'
import { Packr, Unpackr } from 'msgpackr'
import { afterEach, describe, expect, it } from 'vitest'
import { EventPrefixIndex, hashBlocks, PrefixMatches } from '../../src/kv/index.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { KvEventFeed } from '../../src/upstream/events/kv-event-feed.ts'
import { KvEventSource } from '../../src/upstream/events/kv-event-source.ts'
import type { KvEventSourceOptions } from '../../src/upstream/events/kv-event-source.ts'
import { KvEventTranslator } from '../../src/upstream/events/kv-event-translator.ts'
import { endpointAt, loadZmqClient } from '../../src/upstream/events/zmq-client.ts'
import { readForeignBatch } from '../../src/upstream/events/kv-event-batch.ts'
import { ZmqKvRank } from '../../src/host/simengine/zmq-kv-rank.ts'
import type { ZmqModule } from '../../src/host/simengine/zmq-kv-rank.ts'
import { until } from '../until.ts'

const FOLDER = fileURLToPath(new URL('../vectors/engines/', import.meta.url))
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'bigint' })
const packr = new Packr({ useRecords: false })

function recordedEvents(
  folder: string,
  blockTokens: number,
): { events: KvEvent[]; translator: KvEventTranslator } {
  const translator = new KvEventTranslator(blockTokens)
  const names = readdirSync(`${FOLDER}${folder}`).filter((name) => name.endsWith('payload.msgpack'))
  const events = names.toSorted().flatMap((name) => {
    const batch = readForeignBatch(unpackr.unpack(readFileSync(`${FOLDER}${folder}/${name}`)))
    if (batch === null) throw new Error(`${name} is not read`)
    return translator.translate(batch)
  })
  return { events, translator }
}

describe('recorded events', () => {
  it.each([
    ['vllm/kv-events', 32],
    ['vllm-nixl-pd/kv-events-P', 128],
    ['sglang/kv-events', 16],
  ])('%s - every event is parsed and every block follows a known one', (folder, blockTokens) => {
    const { events, translator } = recordedEvents(folder, blockTokens)
    expect(translator.counters).toMatchObject({ unreadable: 0, otherBlockSize: 0, leftOut: 0 })
    const index = new EventPrefixIndex()
    for (const event of events) expect(index.apply(0, event)).toBe('applied')
    expect(translator.counters.stored).toBeGreaterThan(0)
  })

  it('SGLang, with negative hashes - the prompt is found again, under a salt only with that salt', () => {
    const story = [
      1, 562, 272, 207, 1290, 384, 265, 411, 417, 265, 1327, 1292, 402, 1523, 746, 303, 285, 269,
      895, 22, 2, 207, 1, 412, 289, 324, 207, 735, 706, 20, 265, 1327,
    ]
    const { events } = recordedEvents('sglang/kv-events', 16)
    const index = new EventPrefixIndex()
    for (const event of events) index.apply(0, event)
    expect(held(index, story, 16)).toBe(2)
    expect(held(index, story, 16, 't1')).toBe(2)
    expect(held(index, story, 16, 't2')).toBe(0)
  })
})

function held(
  index: EventPrefixIndex,
  tokens: readonly number[],
  blockTokens: number,
  salt?: string,
): number {
  const { sequence } = hashBlocks(
    Uint32Array.from(tokens),
    blockTokens,
    salt === undefined ? {} : { salt },
  )
  const matches = new PrefixMatches()
  index.find(sequence, matches)
  return matches.device[0] ?? 0
}

const block = (start: number, count = 1): number[] =>
  Array.from({ length: 16 * count }, (_, i) => start * 16 + i + 1)

const stored = (
  hashes: readonly (bigint | number)[],
  parent: bigint | number | null,
  tokens: number[],
  rest: object = {},
): object => ({
  type: 'BlockStored',
  block_hashes: hashes,
  parent_block_hash: parent,
  token_ids: tokens,
  block_size: 16,
  lora_id: null,
  medium: 'GPU',
  ...rest,
})

describe('readForeignBatch', () => {
  it('arrays, maps, a map around all - have the same meaning', () => {
    const array = [1, [['BlockStored', [5n], null, block(0), 16, null, 'GPU']], 3]
    const maps = [1, [stored([5n], null, block(0))], 3]
    const map = { ts: 1, events: maps[1], data_parallel_rank: 3 }
    const [a, b, c] = [array, maps, map].map(readForeignBatch)
    expect(a).toEqual(b)
    expect(b).toEqual(c)
    expect(a?.dpRank).toBe(3)
  })

  it.each([
    [5, 5n],
    [-1, 0xffffffffffffffffn],
    [-8576485766329305164n, 9870258307380246452n],
    [18369472029096300367n, 18369472029096300367n],
    [Uint8Array.of(9, 9, 0, 0, 0, 0, 0, 0, 1, 2), 258n],
  ])('hash %s - is %s', (written, hash) => {
    const batch = readForeignBatch([1, [['BlockRemoved', [written]]]])
    expect(batch?.events[0]).toMatchObject({ hashes: [hash] })
  })

  it.each([null, 7, [], [1, 2], { events: 1 }])('%j - is not a batch', (value) => {
    expect(readForeignBatch(value)).toBeNull()
  })

  it('events that cannot be parsed - are counted, the others kept', () => {
    const batch = readForeignBatch([
      1,
      [['Unknown'], 7, ['AllBlocksCleared'], stored([1.5], null, [])],
    ])
    expect(batch).toMatchObject({ unreadable: 3, events: [{ kind: 'cleared' }] })
  })
})

describe('KvEventTranslator', () => {
  const translate = (...events: object[]): { told: KvEvent[]; translator: KvEventTranslator } => {
    const translator = new KvEventTranslator(16)
    const told = events.flatMap((event) => translator.translate(readForeignBatch([1, [event]])!))
    return { told, translator }
  }
  const localOf = (event: KvEvent | undefined): readonly number[] =>
    event?.kind === 'stored' ? [...event.localHashes] : []

  it('a salt that only the first block names - applies to its descendants', () => {
    const { told } = translate(
      stored([1], null, block(0), { extra_keys: [['t1']] }),
      stored([2], 1, block(1), { extra_keys: [null] }),
    )
    const all = hashBlocks(Uint32Array.from([...block(0), ...block(1)]), 16, { salt: 't1' })
    expect([...localOf(told[0]), ...localOf(told[1])]).toEqual([...all.local])
  })

  it('an adapter - is identified by its name, which is not a salt', () => {
    const { told } = translate(
      stored([1], null, block(0), { lora_name: 'poet', extra_keys: [['poet']] }),
    )
    expect(localOf(told[0])).toEqual([
      ...hashBlocks(Uint32Array.from(block(0)), 16, { loraName: 'poet' }).local,
    ])
  })

  it('a block with an image - differs from the block without it', () => {
    const plain = translate(stored([1], null, block(0))).told
    const pictured = translate(
      stored([1], null, block(0), { extra_keys: [[['a'.repeat(64), 3]]] }),
    ).told
    expect(localOf(plain[0])).not.toEqual(localOf(pictured[0]))
  })

  it.each([
    ['a sliding window', { group_idx: 1, kv_cache_spec_kind: 'sliding_window' }, 0],
    ['another group without a kind', { group_idx: 1 }, 0],
    ['full attention', { group_idx: 0, kv_cache_spec_kind: 'full_attention' }, 1],
    ['full attention in a later group', { group_idx: 2, kv_cache_spec_kind: 'mla_attention' }, 1],
  ])('%s - %s is reported: %i', (_name, rest, count) => {
    expect(translate(stored([1], null, block(0), rest)).told.length).toBe(count)
  })

  it.each([
    ['without kinds', {}, 0, 1],
    ['with kinds', { kv_cache_spec_kind: 'full_attention' }, 1, 0],
  ])(
    'groups %s - a block that another group evicts is still cached',
    (_name, kind, counted, other) => {
      const removed = (group: number): object => ({
        type: 'BlockRemoved',
        block_hashes: [1],
        medium: 'GPU',
        group_idx: group,
      })
      const { told } = translate(
        stored([1], null, block(0), { ...kind, group_idx: counted }),
        removed(other),
        removed(counted),
      )
      expect(told.map((event) => event.kind)).toEqual(['stored', 'removed'])
    },
  )

  it.each([
    [8, 'otherBlockSize'],
    [32, 'otherBlockSize'],
  ])('blocks of %i tokens - are counted, not guessed', (blockTokens, counter) => {
    const { told, translator } = translate(
      stored([1], null, block(0, 2).slice(0, blockTokens), { block_size: blockTokens }),
    )
    expect(told).toEqual([])
    expect(translator.counters).toMatchObject({ [counter]: 1 })
  })

  it.each([
    ['GPU', 'device'],
    [null, 'device'],
    ['CPU', 'host'],
    ['CPU_PINNED', 'host'],
    ['DISK', 'disk'],
  ])('medium %s - is tier %s', (medium, tier) => {
    expect(translate(stored([1], null, block(0), { medium })).told[0]).toMatchObject({ tier })
  })
})

describe('endpointAt', () => {
  it.each([
    ['tcp://*:5557', 'gpu-1', 'tcp://gpu-1:5557'],
    ['tcp://0.0.0.0:5557', '10.0.0.1', 'tcp://10.0.0.1:5557'],
    ['tcp://[::]:5557', 'fe80::1', 'tcp://[fe80::1]:5557'],
    ['tcp://named:5557', 'gpu-1', 'tcp://named:5557'],
    ['ipc:///run/x', 'gpu-1', 'ipc:///run/x'],
  ])('%s at %s - is %s', (endpoint, host, expected) => {
    expect(endpointAt(endpoint, host)).toBe(expected)
  })

  it('anything else - is refused', () => {
    expect(() => endpointAt('http://a', 'b')).toThrow(/expected tcp/)
  })
})

const zmq = await loadZmqClient()
const hasIpv6 = Object.values(networkInterfaces()).some((found) =>
  found?.some(({ address }) => address === '::1'),
)

interface ZmqPublisher {
  readonly lastEndpoint: string
  bind(endpoint: string): Promise<void>
  send(frames: readonly Uint8Array[]): Promise<void>
  close(): void
}

describe.skipIf(zmq === null)('KvEventSource', () => {
  const open: { close(): unknown }[] = []
  afterEach(() => {
    for (const end of open.splice(0).toReversed()) end.close()
  })

  async function publisher(
    ports = { events: 0, replay: 0 },
    batchesKept = 1000,
  ): Promise<{
    rank: ZmqKvRank
    events: string
    replay: string | null
  }> {
    const rank = new ZmqKvRank(zmq as unknown as ZmqModule, {
      address: '127.0.0.1',
      eventsPort: ports.events,
      replayPort: ports.replay,
      batchesKept,
      bytesKept: 1 << 20,
    })
    const { events, replay } = await rank.listen()
    open.push({ close: () => rank.close() })
    return { rank, events, replay }
  }

  function reader(
    endpoint: string,
    replayEndpoint: string | null,
    rest: Partial<KvEventSourceOptions> = {},
  ): {
    source: KvEventSource
    told: KvEvent[]
  } {
    const told: KvEvent[] = []
    const source = new KvEventSource({
      zmq: zmq!,
      dpRank: 0,
      endpoint,
      replayEndpoint,
      topic: '',
      blockTokens: 16,
      onEvents: (_rank, events) => told.push(...events),
      onFault: () => undefined,
      replayIdleMs: 300,
      replayPauseMs: 10,
      ...rest,
    })
    source.start()
    open.push({ close: () => source.close() })
    return { source, told }
  }

  const publish = (rank: ZmqKvRank, n: number): void =>
    rank.publish(packr.pack([n, [stored([n + 1], n === 0 ? null : n, block(n))], 0]))
  const namesOf = (told: readonly KvEvent[]): (number | string)[] =>
    told.map((event) => (event.kind === 'stored' ? (event.hashes[0] ?? 0) : event.kind))

  it('a late subscriber - gets all earlier events by replay, then the new ones', async () => {
    const { rank, events, replay } = await publisher()
    for (let n = 0; n < 5; n++) publish(rank, n)
    const { told, source } = reader(events, replay)
    await until('the past is read', () => told.length === 5)
    let next = 5
    // A subscription takes its time; what is sent before is a gap, which is filled.
    await until('the present is read', () => {
      publish(rank, next++)
      return told.length > 7
    })
    await until('all is read', () => told.length === next)
    expect(namesOf(told)).toEqual(Array.from({ length: next }, (_, n) => n + 1))
    expect(source.counters.losses).toBe(0)
  })

  it('two ranks of one server - each is subscribed to as its own rank', async () => {
    const ranks = [await publisher(), await publisher()]
    publish(ranks[0]!.rank, 0)
    publish(ranks[1]!.rank, 0)
    publish(ranks[1]!.rank, 1)
    const heard: (readonly KvEvent[])[] = [[], []]
    const feed = await KvEventFeed.open({
      places: ranks.map(({ events, replay }, dpRank) => ({
        dpRank,
        endpoint: events,
        replayEndpoint: replay,
        topic: '',
      })),
      host: '127.0.0.1',
      blockTokens: 16,
      onEvents: (dpRank, events) => {
        heard[dpRank] = [...(heard[dpRank] ?? []), ...events]
      },
      onFault: () => undefined,
    })
    feed?.start()
    open.push({ close: () => feed?.close() })
    await until('both are read', () => heard[0]?.length === 1 && heard[1]?.length === 2)
    expect(heard.map((events) => namesOf(events))).toEqual([[1], [1, 2]])
  })

  it('an event history that is partly dropped - starts where it can', async () => {
    const { rank, events, replay } = await publisher({ events: 0, replay: 0 }, 3)
    for (let n = 0; n < 10; n++) publish(rank, n)
    const { told } = reader(events, replay)
    await until('the past is read', () => told.length === 3)
    expect(namesOf(told)).toEqual([8, 9, 10])
  })

  it.runIf(hasIpv6)('a publisher at an IPv6 address - is subscribed to', async () => {
    const { Publisher } = zmq as unknown as { Publisher: new (options: object) => ZmqPublisher }
    const socket = new Publisher({ ipv6: true, linger: 0 })
    await socket.bind('tcp://[::1]:*')
    open.push(socket)
    const { told } = reader(socket.lastEndpoint, null)
    const number = Buffer.alloc(8)
    const payload = packr.pack([1, [stored([1], null, block(0))], 0])
    await until('it is heard', async () => {
      await socket.send([Buffer.alloc(0), number, payload])
      return told.length > 0
    })
    expect(namesOf(told)[0]).toBe(1)
  })

  it('no replay - new events are read, a gap clears the known blocks', async () => {
    const { rank, events } = await publisher()
    const { told, source } = reader(events, null)
    let next = 0
    await until('something is read', () => {
      publish(rank, next++)
      return told.length > 0
    })
    expect(source.counters.losses + source.counters.gaps).toBeGreaterThanOrEqual(0)
    await until('all is read', () => namesOf(told).at(-1) === next)
  })

  it('a publisher that restarts - is cleared and read from the beginning', async () => {
    const first = await publisher()
    const ports = {
      events: Number(first.events.split(':').at(-1)),
      replay: Number(first.replay?.split(':').at(-1)),
    }
    for (let n = 0; n < 4; n++) publish(first.rank, n)
    const { told, source } = reader(first.events, first.replay)
    await until('the first is read', () => told.length === 4)
    first.rank.close()
    // Another test's connection may have the port for a moment.
    let again: Awaited<ReturnType<typeof publisher>> | null = null
    await until('the ports are free', async () => {
      again = await publisher(ports).catch(() => null)
      return again !== null
    })
    const second = again as unknown as Awaited<ReturnType<typeof publisher>>
    let next = 0
    await until('the second is read', () => {
      if (next < 3) publish(second.rank, next++)
      else second.rank.publish(packr.pack([9, [], 0]))
      return namesOf(told).includes('cleared') && namesOf(told).slice(4).length >= 4
    })
    expect(namesOf(told).slice(4, 8)).toEqual(['cleared', 1, 2, 3])
    expect(source.counters.stored).toBe(7)
    expect(source.counters.restarts).toBeGreaterThan(0)
  })
})
