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

describe('StaticDiscovery - the contract as far as it goes', () => {
  // A list that never changes: nobody comes, nobody goes; registering changes nothing.
  it('who is there - is reported before watch resolves', async () => {
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

  it('one id twice - is refused', () => {
    expect(() => new StaticDiscovery([sampleCard(1), sampleCard(1)])).toThrow('same id')
  })
})

describe('FileDiscovery - what others write', () => {
  it('what is no file or too large for a card - is reported, not read; workers come as before', async () => {
    const folder = await temporaryFolder()
    // Whoever opened one to read would wait for a writer, each look anew, until nothing can be read any more.
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
    // One of these names is no hindrance to its worker.
    await discoveryOf(folder).register(sampleCard(21))
    await record.until('joined 21')
  })

  it('damaged, foreign and misnamed entries - are reported once and do not disturb the rest', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, '7.json'), '{"format":1,')
    await writeFile(join(folder, '8.json'), encodeCardFile({ card: sampleCard(9), machine: 'm' }))
    await writeFile(join(folder, 'notes.json'), 'hello')
    await writeFile(join(folder, '10.json.tmp'), 'half')
    const record = new DiscoveryRecord()
    await discoveryOf(folder).register(sampleCard(1))
    await discoveryOf(folder).watch(record)
    // Each newcomer is seen by a further look into the folder, which meets the damaged entries again.
    for (const id of [2, 3]) {
      await discoveryOf(folder).register(sampleCard(id))
      await record.until(`joined ${id}`)
    }
    expect(record.told.filter((line) => line.startsWith('unreadable'))).toHaveLength(2)
    expect(record.told.filter((line) => line.startsWith('joined'))).toEqual(
      [1, 2, 3].map((id) => `joined ${id}`),
    )
  })

  it('mode of an entry - is written as its JSON form; the short form is read, too', () => {
    const text = encodeCardFile({ card: sampleCard(1, { mode: 'agg' }), machine: 'm' })
    expect(JSON.parse(text)).toMatchObject({ card: { mode: 'aggregated' } })
    expect(decodeCardFile(text).card.mode).toBe('agg')
    expect(decodeCardFile(text.replace('aggregated', 'agg')).card.mode).toBe('agg')
    expect(() => decodeCardFile(text.replace('aggregated', 'encode'))).toThrow('mode')
  })

  it('more ranks than a router has rows for - is not believed', () => {
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

  it("an engine's pace - is kept as it is told; one that cannot be is not believed", () => {
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

  it('any card - survives being written and read; any other text is refused by a typed error', () => {
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
