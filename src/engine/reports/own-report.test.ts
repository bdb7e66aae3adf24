import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../../kv/index.ts'
import { EVENT_HEAD_WORDS, ownKvEvents } from './own-kv-events.ts'
import { kvEventFault, ownKvEvent, ownLoadReport } from './own-report.ts'
import { rankFault } from './report-faults.ts'

const none = new Uint32Array(0)
const stored = (hashes: readonly number[], localHashes: Uint32Array = none): KvEvent => ({
  kind: 'stored',
  parent: null,
  hashes: Uint32Array.from(hashes),
  localHashes,
  tier: 'device',
})

describe('kvEventFault - a stored event', () => {
  it('with blocks that differ in only one half - is valid', () => {
    expect(kvEventFault(stored([1, 2]))).toBeNull()
    expect(kvEventFault(stored([1, 2, 1, 3, 4, 2]))).toBeNull()
    expect(kvEventFault(stored([1, 23, 12, 3]))).toBeNull()
  })

  it('that names a block twice - is invalid: no chain repeats a block', () => {
    const fault = 'a stored event that names a block twice'
    expect(kvEventFault(stored([1, 2, 1, 2]))).toBe(fault)
    expect(kvEventFault(stored([1, 2, 3, 4, 5, 6, 1, 2]))).toBe(fault)
  })

  it('with engine hashes and local hashes - is checked by the local hashes', () => {
    expect(kvEventFault(stored([1, 2, 1, 2], Uint32Array.of(7, 8, 7, 8)))).toBeNull()
  })
})

describe('ownLoadReport, ownKvEvent', () => {
  const load = {
    dpRank: 0,
    activeBlocks: 1,
    totalBlocks: 10,
    runningRequests: 1,
    queuedRequests: 0,
    prefillTokensInFlight: 0,
  }

  it('an engine that uses the same object again - does not change what was reported', () => {
    const step = { ...load }
    const own = ownLoadReport(step)
    step.queuedRequests = 3
    expect(own).toEqual(load)
  })

  it('a field that returns something else the second time - is read once', () => {
    const event = stored([1, 2])
    let reads = 0
    Object.defineProperty(event, 'tier', {
      enumerable: true,
      get: () => (reads++ === 0 ? 'device' : 'tape'),
    })
    expect(ownKvEvent(event)).toEqual(stored([1, 2]))
    expect(reads).toBe(1)
  })

  it.each([
    ['no record', null, 'an event is not a record'],
    ['a wrong field', { ...stored([1, 2]), tier: 'tape' }, "tier 'tape'"],
  ])('%s - is what is wrong with it', (_name, event, fault) => {
    expect(ownKvEvent(event as KvEvent)).toBe(fault)
  })
})

describe('rankFault', () => {
  it.each([
    [{}, 0, 0],
    [{ dataParallelSize: 3 }, 0, 2],
    [{ dataParallelStartRank: 4 }, 4, 4],
    [{ dataParallelStartRank: 4, dataParallelSize: 2 }, 4, 5],
  ])('the ranks of %j are %i to %i - the ones below and above are unknown', (config, from, to) => {
    expect([rankFault(from, config), rankFault(to, config)]).toEqual([null, null])
    expect(rankFault(from - 1, config)).toContain(`rank ${from - 1}: the engine's config names`)
    expect(rankFault(to + 1, config)).toContain(`rank ${to + 1}: the engine's config names`)
  })

  it.each([0.5, NaN, '0', 0n, null])('%s - is no rank', (rank) => {
    expect(rankFault(rank as never, {})).toContain("the engine's config names rank 0")
  })
})

describe('ownKvEvent - typed arrays and parents', () => {
  it.each([2, 64])('%i numbers of a subclass - become an array of the base class', (length) => {
    class Odd extends Uint32Array {
      #reads = 0
      override get length(): number {
        return ++this.#reads * 1000
      }
      override get buffer(): never {
        throw new Error('no')
      }
    }
    const odd = new Odd(length).map((_, i) => i + 1)
    const own = ownKvEvent({ ...stored([1, 2]), hashes: odd } as KvEvent) as typeof event
    const event = stored(Array.from({ length }, (_, i) => i + 1)) as KvEvent & { kind: 'stored' }
    expect(own).toEqual(event)
    expect(own.hashes.constructor).toBe(Uint32Array)
  })

  it('an ordinary array of many numbers - is not copied', () => {
    const event = stored(Array.from({ length: 64 }, (_, i) => i)) as KvEvent & { kind: 'stored' }
    expect((ownKvEvent(event) as typeof event).hashes).toBe(event.hashes)
  })

  it('a length as a property of the array - is not read', () => {
    const hashes = new Uint32Array(64).map((_, i) => i)
    Object.defineProperty(hashes, 'length', { value: 1e9 })
    const own = ownKvEvent({ kind: 'removed', tier: 'device', hashes }) as typeof event
    const event = { kind: 'removed', tier: 'device', hashes: new Uint32Array(hashes) } as const
    expect(own.hashes.length).toBe(64)
  })

  it('a parent that returns something else the second time - is read once', () => {
    let reads = 0
    const parent = new Proxy([1, 2], {
      get: (pair, name) => (++reads > 3 ? refuse() : Reflect.get(pair, name)),
    })
    const event = { ...stored([3, 4]), parent } as unknown as KvEvent
    expect(ownKvEvent(event)).toEqual({ ...stored([3, 4]), parent: [1, 2] })
  })

  it.each([[[1]], [[1, 2, 3]], [[]], [{ 0: 1, 1: 2, length: 2 }], [[1, -1]]])(
    'a parent %j - is refused',
    (parent) => {
      const event = { ...stored([3, 4]), parent } as unknown as KvEvent
      expect(ownKvEvent(event)).toBe('`parent` is neither null nor a pair of u32')
    },
  )

  it.each<[string, unknown]>([
    ['behind a proxy', new Proxy(Uint32Array.of(1, 2), {})],
    ['of another class', Int32Array.of(1, 2)],
    ['that only inherit from an array', Object.create(Uint32Array.prototype)],
  ])('hashes %s - are refused', (_name, hashes) => {
    const event = { ...stored([1, 2]), hashes } as KvEvent
    expect(ownKvEvent(event)).toBe('`hashes` is not a Uint32Array')
  })
})

describe('ownKvEvents', () => {
  const read = (list: unknown): [number, string[]] => {
    const faults: string[] = []
    return [ownKvEvents(list, (fault) => faults.push(fault)).length, faults]
  }
  const tooMany = expect.stringContaining('report them in several lists') as string
  const sparse = (length: number): unknown[] => Object.assign([], { length })

  it('wrong events among sound ones - cost only themselves', () => {
    expect(read([stored([1, 2]), 7, stored([3, 4])])).toEqual([2, ['an event is not a record']])
  })

  it.each([
    ['a list of 4 billion holes', sparse(2 ** 32 - 1)],
    ['a proxy without an end', new Proxy([], { get: () => Infinity })],
    ['a proxy whose length is no number', new Proxy([], { get: () => NaN })],
  ])('%s - is refused before it is walked', (_name, list) => {
    expect(read(list)).toEqual([0, [tooMany]])
  })

  it('a list that throws - is nothing but its fault', () => {
    const list = new Proxy([], { get: refuse })
    expect(read(list)).toEqual([0, ['the list cannot be read: no']])
  })

  /** 64 MiB in words of 4 bytes. */
  const EVENT_WORDS_MAX = 16_777_216

  it('one large event, named again and again - is read as far as the limit', () => {
    const hashes = new Uint32Array(2 ** 20)
    const event: KvEvent = { kind: 'removed', tier: 'device', hashes }
    const most = Math.floor(EVENT_WORDS_MAX / (hashes.length + EVENT_HEAD_WORDS))
    expect(read(Array<KvEvent>(most - 1).fill(event))).toEqual([most - 1, []])
    expect(read(Array<KvEvent>(most).fill(event))).toEqual([most, []])
    expect(read(Array<KvEvent>(most + 1).fill(event))).toEqual([most, [tooMany]])
  })

  it('as many events as there may be, and one more - the longer list is refused', () => {
    const most = EVENT_WORDS_MAX / EVENT_HEAD_WORDS
    const cleared: KvEvent = { kind: 'cleared' }
    expect(read(Array<KvEvent>(most - 1).fill(cleared))).toEqual([most - 1, []])
    expect(read(Array<KvEvent>(most).fill(cleared))).toEqual([most, []])
    expect(read(Array<KvEvent>(most + 1).fill(cleared))).toEqual([0, [tooMany]])
  })
})

function refuse(): never {
  throw new Error('no')
}
