/** KV events from a real ZeroMQ publisher that loses batches, restarts, or was started earlier than its reader. */
import { networkInterfaces } from 'node:os'
import { Packr } from 'msgpackr'
import { afterEach, describe, expect, it } from 'vitest'
import { ZmqKvRank } from '../../src/host/simengine/zmq-kv-rank.ts'
import type { ZmqModule } from '../../src/host/simengine/zmq-kv-rank.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { KvEventFeed } from '../../src/upstream/events/kv-event-feed.ts'
import { KvEventSource } from '../../src/upstream/events/kv-event-source.ts'
import type { KvEventSourceOptions } from '../../src/upstream/events/kv-event-source.ts'
import { endpointAt, loadZmqClient } from '../../src/upstream/events/zmq-client.ts'
import { until } from '../until.ts'
import { block, stored } from './kv-event-payloads.ts'
import { KvPublisher } from './kv-publisher.ts'

const packr = new Packr({ useRecords: false })

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

  it.each(['http://a', 'inproc://x', 'tcp://*', ''])('%s - is refused', (endpoint) => {
    expect(() => endpointAt(endpoint, 'b')).toThrow(/expected tcp/)
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
      onUnused: () => undefined,
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

  it('a late subscriber - gets all earlier events by replay, then new ones', async () => {
    const { rank, events, replay } = await publisher()
    for (let n = 0; n < 5; n++) publish(rank, n)
    const { told, source } = reader(events, replay)
    await until('the past is read', () => told.length === 5)
    let next = 5
    // A subscription takes a moment; events sent before it are a gap, which the replay fills.
    await until('the present is read', () => {
      publish(rank, next++)
      return told.length > 7
    })
    await until('all is read', () => told.length === next)
    expect(namesOf(told)).toEqual(Array.from({ length: next }, (_, n) => n + 1))
    expect(source.counters.losses).toBe(0)
  })

  it('two ranks of one server - their events have the right rank', async () => {
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
      ranks: 2,
      onEvents: (dpRank, events) => {
        heard[dpRank] = [...(heard[dpRank] ?? []), ...events]
      },
      onFault: () => undefined,
      onUnused: () => undefined,
    })
    feed?.start()
    open.push({ close: () => feed?.close() })
    await until('both are read', () => heard[0]?.length === 1 && heard[1]?.length === 2)
    expect(heard.map((events) => namesOf(events))).toEqual([[1], [1, 2]])
  })

  it.each(['inproc://x', 'tcp://*', 'tcp://*:99999', 'tcp://a b:5557', 'tcp://:5557'])(
    'an endpoint that cannot be used (%s) - is named, the other ranks are read',
    async (wrong) => {
      const { rank, events, replay } = await publisher()
      publish(rank, 0)
      const told: KvEvent[] = []
      const unused: string[] = []
      const feed = await KvEventFeed.open({
        places: [
          { dpRank: 0, endpoint: wrong, replayEndpoint: replay, topic: '' },
          { dpRank: 1, endpoint: events, replayEndpoint: replay, topic: '' },
          { dpRank: 2, endpoint: events, replayEndpoint: wrong, topic: '' },
        ],
        host: '127.0.0.1',
        blockTokens: 16,
        ranks: 3,
        onEvents: (dpRank, read) => {
          if (dpRank === 1) told.push(...read)
        },
        onFault: () => undefined,
        onUnused: (text) => unused.push(text),
      })
      feed?.start()
      open.push({ close: () => feed?.close() })
      await until('the other rank is read', () => told.length === 1)
      expect(unused).toHaveLength(2)
      expect(unused[0]).toContain(`KV events of rank 0 cannot be used (${wrong})`)
      expect(unused[1]).toContain(`Replays of KV events of rank 2 cannot be used (${wrong})`)
    },
  )

  it('an incomplete replay buffer - the oldest available events are read', async () => {
    const { rank, events, replay } = await publisher({ events: 0, replay: 0 }, 3)
    for (let n = 0; n < 10; n++) publish(rank, n)
    const { told } = reader(events, replay)
    await until('the past is read', () => told.length === 3)
    expect(namesOf(told)).toEqual([8, 9, 10])
  })

  it.runIf(hasIpv6)('a publisher at an IPv6 address - is reachable', async () => {
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

  it('without replay - new events are read, a gap clears the known blocks', async () => {
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

  it('a restarted publisher - its old blocks are cleared and it is read from the beginning', async () => {
    const first = await publisher()
    const ports = {
      events: Number(first.events.split(':').at(-1)),
      replay: Number(first.replay?.split(':').at(-1)),
    }
    for (let n = 0; n < 4; n++) publish(first.rank, n)
    const { told, source } = reader(first.events, first.replay)
    await until('the first is read', () => told.length === 4)
    first.rank.close()
    // A connection of another test may occupy the port for a moment.
    let again: Awaited<ReturnType<typeof publisher>> | null = null
    await until('the ports are free', async () => {
      again = await publisher(ports).catch(() => null)
      return again !== null
    })
    const second = again as unknown as Awaited<ReturnType<typeof publisher>>
    // On a busy machine the loss of the first connection may be reported after the first events of the second one;
    // then they are cleared and read once more.
    const known = (): unknown[] => {
      const names = namesOf(told).slice(4)
      const from = names.lastIndexOf('cleared')
      return from < 0 ? [] : names.slice(from + 1)
    }
    let next = 0
    await until('the second is read', () => {
      if (next < 3) publish(second.rank, next++)
      else second.rank.publish(packr.pack([9, [], 0]))
      return known().length === 3
    })
    expect(namesOf(told)[4]).toBe('cleared')
    expect(known()).toEqual([1, 2, 3])
    expect(source.counters.restarts).toBeGreaterThan(0)
  })

  describe('events that cannot be used', () => {
    const send = async (payloads: readonly Uint8Array[]) => {
      const { rank, events, replay } = await publisher()
      const unused: string[] = []
      const { told, source } = reader(events, replay, { onUnused: (text) => unused.push(text) })
      for (const payload of payloads) rank.publish(payload)
      await until('all are read', () => source.counters.batches === payloads.length)
      return { names: namesOf(told), unused }
    }
    const good = (n: number): Uint8Array => packr.pack([n, [stored([n], null, block(n))], 0])

    it.each<[string, Uint8Array, string]>([
      [
        'a removal',
        packr.pack([2, [{ type: 'BlockRemoved', block_hashes: ['x'] }], 0]),
        'BlockRemoved',
      ],
      ['a batch', Uint8Array.of(0xc1, 1, 2), 'a whole batch'],
      ['a batch of another form', packr.pack({ blocks: [] }), 'a whole batch'],
    ])(
      '%s that cannot be read - all is cleared, the reason is told once',
      async (_n, bad, name) => {
        const { names, unused } = await send([good(1), bad, good(3), bad, good(5)])
        expect(names).toEqual([1, 'cleared', 3, 'cleared', 5])
        expect(unused).toEqual([`KV events of rank 0: some cannot be read (${name})`])
      },
    )

    it('a kind of event that is not known, stored blocks that cannot be read - the others stay, the reason is told', async () => {
      const odd = packr.pack([
        2,
        [{ type: 'BlockMoved' }, { type: 'BlockStored', token_ids: 3 }],
        0,
      ])
      const { names, unused } = await send([good(1), odd, good(3)])
      expect(names).toEqual([1, 3])
      expect(unused).toEqual(['KV events of rank 0: some cannot be read (BlockMoved, BlockStored)'])
    })

    it('blocks of another size - the reason is told once', async () => {
      const other = packr.pack([1, [stored([1], null, block(0, 2), { block_size: 32 })], 0])
      const { names, unused } = await send([other, other])
      expect(names).toEqual([])
      expect(unused).toEqual([
        'KV events of rank 0: they name blocks of 32 tokens, but the server reports 16',
      ])
    })
  })

  describe('with batches that are lost or come twice', () => {
    const payload = (n: number): Uint8Array =>
      packr.pack([n, [stored([n + 1], n === 0 ? null : n, block(n))], 0])

    /** A reader that has read the batches before `next`, and is subscribed. */
    async function subscribed(): Promise<{
      made: KvPublisher
      told: KvEvent[]
      source: KvEventSource
      next: number
    }> {
      const made = await KvPublisher.listen(zmq as unknown as ZmqModule)
      open.push(made)
      made.keep(payload(0))
      const { told, source } = reader(made.events, made.replay)
      await until('the past is read', () => told.length === 1)
      const { replays } = source.counters
      let next = 1
      await until('a live batch is read', async () => {
        await made.send(made.keep(payload(next++)))
        return source.counters.replays === replays && told.length > 1
      })
      await until('all live batches are read', () => told.length === next)
      return { made, told, source, next }
    }
    const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1)

    it('one before and one while a replay runs - both are replayed, nothing is cleared', async () => {
      const { made, told, source, next } = await subscribed()
      made.holdReplays()
      const lostOneThenOne = async (from: number): Promise<void> => {
        made.keep(payload(from))
        await made.send(made.keep(payload(from + 1)))
      }
      await lostOneThenOne(next)
      await until('a replay runs', () => made.replaysHeld === 1)
      await lostOneThenOne(next + 2)
      made.releaseReplays()
      await until('all are read', () => told.length >= next + 4)
      expect(namesOf(told)).toEqual(upTo(next + 4))
      expect(source.counters).toMatchObject({ losses: 0, restarts: 0 })
    })

    it('a batch that is read after the replay that contained it, and one that comes twice - are dropped', async () => {
      const { made, told, source, next } = await subscribed()
      const late = made.keep(payload(next))
      await made.send(made.keep(payload(next + 1)))
      await until('it is replayed', () => told.length === next + 2)
      await made.send(late)
      await made.send(late)
      await made.send(made.keep(payload(next + 2)))
      await until('the next is read', () => namesOf(told).at(-1) === next + 3)
      expect(namesOf(told)).toEqual(upTo(next + 3))
      expect(source.counters).toMatchObject({ losses: 0, restarts: 0 })
    })

    it('numbers that begin again - the blocks of the publisher before are cleared', async () => {
      const { made, told, source, next } = await subscribed()
      made.restart()
      made.keep(packr.pack([next, [stored([901], null, block(7))], 0]))
      await made.send(made.keep(packr.pack([next + 1, [stored([902], 901, block(8))], 0])))
      await until('the new ones are read', () => told.length === next + 3)
      expect(namesOf(told).slice(next)).toEqual(['cleared', 901, 902])
      expect(source.counters).toMatchObject({ losses: 0, restarts: 1 })
    })
  })
})
