import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { decodeCardFile, encodeCardFile } from './card-file.ts'
import { DISCOVERY_CHECKS, DiscoveryRecord, sampleCard } from './discovery-kit.ts'
import { FileDiscovery } from './file-discovery.ts'
import type { FileDiscoveryOptions } from './file-discovery.ts'
import { MemoryDiscovery } from './memory-discovery.ts'
import { StaticDiscovery } from './static-discovery.ts'

const ends: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'baton-discovery-'))
  ends.push(() => rm(folder, { recursive: true, force: true }))
  return folder
}

function fileDiscovery(folder: string, options: Partial<FileDiscoveryOptions> = {}): FileDiscovery {
  const discovery = new FileDiscovery({ folder, pollMs: 20, ...options })
  ends.push(() => discovery.close())
  return discovery
}

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
    await run({ worker: fileDiscovery(folder), frontend: fileDiscovery(folder) })
  })
})

describe('StaticDiscovery - the contract as far as it goes', () => {
  // A list that never changes: nobody comes, nobody goes; registering changes nothing.
  it('who is there - is told before watch resolves', async () => {
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

describe('FileDiscovery - leases', () => {
  it('an entry that is no longer renewed - is gone after the time to live', async () => {
    const folder = await temporaryFolder()
    // Of another machine: its process cannot be looked at, only its renewals.
    const card = sampleCard(1, { pid: 1 })
    await writeFile(join(folder, '1.json'), encodeCardFile({ card, machine: 'elsewhere' }))
    const record = new DiscoveryRecord()
    await fileDiscovery(folder, { ttlMs: 200 }).watch(record)
    await record.until('left 1 expired')
    expect(record.told).toEqual(['joined 1', 'left 1 expired'])
  })

  it('an entry that is renewed - stays for many times to live', async () => {
    const folder = await temporaryFolder()
    const record = new DiscoveryRecord()
    await fileDiscovery(folder, { ttlMs: 1_000 }).register(sampleCard(1))
    const before = (await stat(join(folder, '1.json'))).mtimeMs
    await fileDiscovery(folder, { ttlMs: 1_000 }).watch(record)
    while ((await stat(join(folder, '1.json'))).mtimeMs < before + 600) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    expect(record.told).toEqual(['joined 1'])
  })

  it('a process of this machine that died - is gone at once, its file removed', async () => {
    const folder = await temporaryFolder()
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    const exited = new Promise((resolve) => child.once('exit', resolve))
    const record = new DiscoveryRecord()
    await fileDiscovery(folder).register(sampleCard(1, { pid: child.pid ?? 0 }))
    await fileDiscovery(folder, { ttlMs: 600_000 }).watch(record)
    child.kill('SIGKILL')
    await exited
    await record.until('left 1 process-died')
    while ((await readdir(folder)).includes('1.json')) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })

  it('an entry that was removed under a living worker - comes back with the next beat', async () => {
    const folder = await temporaryFolder()
    const record = new DiscoveryRecord()
    await fileDiscovery(folder, { ttlMs: 150 }).register(sampleCard(1))
    await fileDiscovery(folder, { ttlMs: 600_000 }).watch(record)
    await rm(join(folder, '1.json'))
    await record.until('left 1 closed')
    while (record.told.length < 3) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(record.told.at(-1)).toBe('joined 1')
  })

  it('an id of a worker that is dead - may be taken over', async () => {
    const folder = await temporaryFolder()
    const card = sampleCard(1, { pid: 1 })
    await writeFile(join(folder, '1.json'), encodeCardFile({ card, machine: 'elsewhere' }))
    await utimes(join(folder, '1.json'), new Date(0), new Date(0))
    await fileDiscovery(folder).register(sampleCard(1))
    expect(decodeCardFile(await readFile(join(folder, '1.json'), 'utf8')).machine).not.toBe(
      'elsewhere',
    )
  })

  it('close - removes what was registered here and leaves no file behind', async () => {
    const folder = await temporaryFolder()
    const discovery = fileDiscovery(folder, { ttlMs: 30 })
    await discovery.register(sampleCard(1))
    await discovery.register(sampleCard(2))
    await new Promise((resolve) => setTimeout(resolve, 60))
    await discovery.close()
    expect(await readdir(folder)).toEqual([])
  })
})

describe('FileDiscovery - what others write', () => {
  it('damaged, foreign and misnamed entries - are reported once and do not disturb the rest', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, '7.json'), '{"format":1,')
    await writeFile(join(folder, '8.json'), encodeCardFile({ card: sampleCard(9), machine: 'm' }))
    await writeFile(join(folder, 'notes.json'), 'hello')
    await writeFile(join(folder, '10.json.tmp'), 'half')
    const record = new DiscoveryRecord()
    await fileDiscovery(folder).register(sampleCard(1))
    await fileDiscovery(folder).watch(record)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(record.told.filter((line) => line.startsWith('unreadable'))).toHaveLength(2)
    expect(record.told.filter((line) => line.startsWith('joined'))).toEqual(['joined 1'])
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
