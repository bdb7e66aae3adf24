/** Payloads of KV events from foreign engines, recorded and constructed: parsing and translation. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Unpackr } from 'msgpackr'
import { describe, expect, it } from 'vitest'
import { EventPrefixIndex, hashBlocks, PrefixMatches } from '../../src/kv/index.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { readForeignBatch } from '../../src/upstream/events/kv-event-batch.ts'
import { KvEventTranslator } from '../../src/upstream/events/kv-event-translator.ts'
import { block, stored } from './kv-event-payloads.ts'

const FOLDER = fileURLToPath(new URL('../vectors/engines/', import.meta.url))
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'bigint' })

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

  it('SGLang, with negative hashes - the prompt is found, with a salt only under that salt', () => {
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

describe('readForeignBatch', () => {
  it('arrays, maps, a map around both - have the same meaning', () => {
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
  ])('hash %s - is read as %s', (written, hash) => {
    const batch = readForeignBatch([1, [['BlockRemoved', [written]]]])
    expect(batch?.events[0]).toMatchObject({ hashes: [hash] })
  })

  it.each([null, 7, [], [1, 2], { events: 1 }])('%j - is refused as a batch', (value) => {
    expect(readForeignBatch(value)).toBeNull()
  })

  it('unreadable events - are named, the others are kept', () => {
    const batch = readForeignBatch([
      1,
      [['Unknown'], 7, ['AllBlocksCleared'], stored([1.5], null, [])],
    ])
    expect(batch).toMatchObject({
      unreadable: ['Unknown', 'an event without a name', 'BlockStored'],
      events: [{ kind: 'cleared' }],
    })
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

  it('a salt in the first block only - applies to its descendants', () => {
    const { told } = translate(
      stored([1], null, block(0), { extra_keys: [['t1']] }),
      stored([2], 1, block(1), { extra_keys: [null] }),
    )
    const all = hashBlocks(Uint32Array.from([...block(0), ...block(1)]), 16, { salt: 't1' })
    expect([...localOf(told[0]), ...localOf(told[1])]).toEqual([...all.local])
  })

  it('a LoRA adapter - is identified by its name, which is not a salt', () => {
    const { told } = translate(
      stored([1], null, block(0), { lora_name: 'poet', extra_keys: [['poet']] }),
    )
    expect(localOf(told[0])).toEqual([
      ...hashBlocks(Uint32Array.from(block(0)), 16, { loraName: 'poet' }).local,
    ])
  })

  it('a block with an image - has another hash than without it', () => {
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
  ])('%s - %j gives %i events', (_name, rest, count) => {
    expect(translate(stored([1], null, block(0), rest)).told.length).toBe(count)
  })

  it.each([
    ['without kinds', {}, 0, 1],
    ['with kinds', { kv_cache_spec_kind: 'full_attention' }, 1, 0],
  ])(
    'KV cache groups %s - a block removed by another group is still held',
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
  ])('blocks of %i tokens - are counted and not translated', (blockTokens, counter) => {
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
