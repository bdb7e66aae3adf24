import { spawnSync } from 'node:child_process'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  discoveryOf,
  endDiscoveriesAfterEach,
  temporaryFolder,
} from '../../test/fixtures/discovery-folder.ts'
import { BatonError } from '../base/index.ts'
import type { EngineConfig } from '../request/index.ts'
import { decodeCardFile, encodeCardFile } from './card-file.ts'
import { DISCOVERY_CHECKS, DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
import { MemoryDiscovery } from './memory-discovery.ts'
import { StaticDiscovery } from './static-discovery.ts'

endDiscoveriesAfterEach()

describe('MemoryDiscovery - the contract', () => {
  it.each(DISCOVERY_CHECKS)('$name', async ({ run }) => {
    const discovery = new MemoryDiscovery()
    await run({ worker: discovery, frontend: discovery })
    await discovery.close()
  })
})

describe('FileDiscovery - the contract', () => {
  it.each(DISCOVERY_CHECKS)('$name', async ({ run }) => {
    const folder = await temporaryFolder()
    await run({ worker: discoveryOf(folder), frontend: discoveryOf(folder) })
  })
})

describe('StaticDiscovery - the applicable part of the contract', () => {
  // A static list never changes, and registering has no effect.
  it('existing workers - are reported before watch resolves', async () => {
    const record = new DiscoveryRecord()
    const watch = await new StaticDiscovery([sampleCard(1), sampleCard(2)]).watch(record)
    expect([...watch.cards.keys()]).toEqual(['1', '2'])
    expect(record.told).toEqual(['joined 1', 'joined 2'])
  })

  it('a worker of the list - may register; another may not', async () => {
    const discovery = new StaticDiscovery([sampleCard(1)])
    await (await discovery.register(sampleCard(1))).close()
    await expect(discovery.register(sampleCard(2))).rejects.toMatchObject({
      code: 'request.conflict',
    })
  })

  it('a duplicate id - is refused', () => {
    expect(() => new StaticDiscovery([sampleCard(1), sampleCard(1)])).toThrow('same id')
  })
})

describe('FileDiscovery - foreign entries', () => {
  it('an entry that is no regular file or too large - is reported and not read; workers still join', async () => {
    const folder = await temporaryFolder()
    // Opening a pipe would block until a writer comes; each poll would block one more thread until none is left.
    const pipes = [21, 22, 23, 24, 25].map((id) => join(folder, `${id}.json`))
    expect(spawnSync('mkfifo', pipes).status).toBe(0)
    await mkdir(join(folder, '26.json'))
    await symlink('/dev/zero', join(folder, '27.json'))
    const card = { ...sampleCard(28), topology: { zone: 'x'.repeat(2 ** 20) } }
    await writeFile(join(folder, '28.json'), encodeCardFile({ card, machine: 'm' }))
    const record = new DiscoveryRecord()
    await discoveryOf(folder).watch(record)
    await discoveryOf(folder).register(sampleCard(1))
    await record.until('joined 1')
    expect(record.told.filter((line) => line.startsWith('unreadable'))).toHaveLength(8)
    // An invalid entry does not prevent its worker from registering.
    await discoveryOf(folder).register(sampleCard(21))
    await record.until('joined 21')
  })

  it('damaged, foreign and misnamed entries - are reported once and do not affect the others', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, '7.json'), '{"format":1,')
    await writeFile(join(folder, '8.json'), encodeCardFile({ card: sampleCard(9), machine: 'm' }))
    await writeFile(join(folder, 'notes.json'), 'hello')
    await writeFile(join(folder, '10.json.tmp'), 'half')
    const record = new DiscoveryRecord()
    await discoveryOf(folder).register(sampleCard(1))
    await discoveryOf(folder).watch(record)
    // Each new worker causes another scan of the folder, which meets the damaged entries again.
    for (const id of [2, 3]) {
      await discoveryOf(folder).register(sampleCard(id))
      await record.until(`joined ${id}`)
    }
    expect(record.told.filter((line) => line.startsWith('unreadable'))).toHaveLength(2)
    expect(record.told.filter((line) => line.startsWith('joined'))).toEqual(
      [1, 2, 3].map((id) => `joined ${id}`),
    )
  })

  it('mode of an entry - is written in its JSON form; the short form is accepted too', () => {
    const text = encodeCardFile({ card: sampleCard(1, { mode: 'agg' }), machine: 'm' })
    expect(JSON.parse(text)).toMatchObject({ card: { mode: 'aggregated' } })
    expect(decodeCardFile(text).card.mode).toBe('agg')
    expect(decodeCardFile(text.replace('aggregated', 'agg')).card.mode).toBe('agg')
    expect(() => decodeCardFile(text.replace('aggregated', 'encode'))).toThrow('mode')
  })

  it('more ranks than a router has rows for - the card is refused', () => {
    const withRanks = (dataParallelSize: number) =>
      encodeCardFile({
        machine: 'm',
        card: sampleCard(1, { engine: { model: 'm', dataParallelSize } }),
      })
    expect(decodeCardFile(withRanks(4096)).card.engine.dataParallelSize).toBe(4096)
    expect(() => decodeCardFile(withRanks(4097))).toThrow('dataParallelSize')
    const withEngine = (engine: object): string =>
      encodeCardFile({ card: sampleCard(1, { engine: { model: 'm', ...engine } }), machine: 'm' })
    for (const [field, good, bad] of [
      ['dataParallelStartRank', 65_535, 65_536],
      ['dataParallelStartRank', 0, Number.MAX_SAFE_INTEGER],
      ['kvCacheBlockSize', 1, 0],
    ] as const) {
      expect(decodeCardFile(withEngine({ [field]: good })).card.engine[field]).toBe(good)
      expect(() => decodeCardFile(withEngine({ [field]: bad }))).toThrow(field)
    }
  })

  it.each([
    ['textDigest', 'ab', { a: 1 }],
    ['servedModelName', 'm', ''],
    ['servedModelName', 'm', 'a\r\nb'],
    ['kvCacheBlockSize', 65_535, 65_536],
    ['modelAliases', ['m'], ['']],
    ['loraAdapters', ['m'], ['']],
    ['embeddingLength', 8, 'abc'],
    ['runtimeData', { a: 1 }, 5],
    ['runtimeData', {}, null],
  ])('%s: %j is kept, %j is refused', (field, good, bad) => {
    const read = (engine: object) =>
      decodeCardFile(
        encodeCardFile({
          card: sampleCard(1, { engine: { model: 'm', ...engine } }),
          machine: 'm',
        }),
      ).card.engine
    expect(read({ [field]: good })).toEqual({ model: 'm', [field]: good })
    expect(() => read({ [field]: bad })).toThrow(`card.engine.${field}`)
  })

  it("an engine's pace - is kept; an impossible one is refused", () => {
    const pace = {
      promptMs: 5,
      promptTokenMs: 0.1,
      stepMs: 9,
      stepRequestMs: 0.5,
      stepContextTokenMs: 0,
    }
    const read = (told: unknown) => {
      const engine = { model: 'm', pace: told } as EngineConfig
      return decodeCardFile(encodeCardFile({ card: sampleCard(1, { engine }), machine: 'm' }))
    }
    expect(read(pace).card.engine.pace).toEqual(pace)
    expect(read(undefined).card.engine).not.toHaveProperty('pace')
    for (const wrong of [null, 7, { ...pace, promptMs: -1 }, { ...pace, stepMs: '9' }, {}])
      expect(() => read(wrong)).toThrow('card.engine.pace')
  })

  it('any card - survives writing and reading; any other text is refused with a typed error', () => {
    const text = fc.string()
    const card = fc
      .record({
        id: fc.nat(),
        model: fc.string({ minLength: 1 }),
        taints: fc.array(text),
        topology: fc.dictionary(
          text.filter((key) => key !== '__proto__'),
          text,
        ),
        mode: fc.constantFrom('agg', 'prefill', 'decode'),
      })
      .map(({ id, model, ...rest }) => sampleCard(id % 60_000, { ...rest, engine: { model } }))
    fc.assert(
      fc.property(card, text, (one, machine) => {
        const file = { card: one, machine }
        expect(decodeCardFile(encodeCardFile(file))).toEqual({ format: 1, ...file })
      }),
    )
    fc.assert(
      fc.property(fc.oneof(text, fc.json()), (noise) => {
        expect(() => decodeCardFile(noise)).toThrow(BatonError)
      }),
    )
  })
})
