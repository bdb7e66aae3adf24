/** The folder of a fleet: replaced, read-only, unusable, on a full disk. */
import { randomUUID } from 'node:crypto'
import { spawnSync } from 'node:child_process'
import { utimesSync } from 'node:fs'
import { chmod, mkdir, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  atEnd,
  deadPid,
  discoveryOf,
  endDiscoveriesAfterEach,
  temporaryFolder,
} from '../../test/fixtures/discovery-folder.ts'
import { processPlace } from '../os/index.ts'
import { until } from '../../test/until.ts'
import { encodeCardFile } from './card-file.ts'
import { DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'

/** Short, so that an entry is soon litter. */
const TTL_MS = 100
/** After this many times to live an expired entry is deleted. */
const LITTER_TTLS = 100

endDiscoveriesAfterEach()

const mount = (...args: string[]): boolean => spawnSync('mount', args).status === 0

describe('FileDiscovery - something else takes the place of the folder', () => {
  it.each<[string, (folder: string) => Promise<void>, RegExp]>([
    ['a file', (folder) => writeFile(folder, ''), /is not a folder any more/],
    ['a link to itself', (folder) => symlink(folder, folder), /cannot be read \(ELOOP\)/],
  ])('%s - discovery is away until the folder is back', async (_name, replace, why) => {
    const folder = await temporaryFolder()
    const entry = encodeCardFile({ card: sampleCard(1), machine: 'elsewhere' })
    await writeFile(join(folder, '1.json'), entry)
    const record = new DiscoveryRecord()
    const watch = await discoveryOf(folder, { ttlMs: 600_000 }).watch(record)
    // A second name for the folder, so that it can be replaced in one step.
    await rename(folder, `${folder}.old`)
    atEnd(() => rm(`${folder}.old`, { recursive: true, force: true }))
    await replace(folder)
    await until('it is away', () => record.told.some((line) => line.startsWith('away')))
    await until('the reason is told', () => record.told.some((line) => why.test(line)))
    expect(record.told.filter((line) => /^back|^unreadable/.test(line))).toEqual([])
    await rm(folder, { force: true })
    await rename(`${folder}.old`, folder)
    await until('it is back', () => record.told.includes('back'))
    expect([...watch.cards.keys()]).toEqual(['1'])
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })
})

describe('FileDiscovery - a file system that becomes read-only', () => {
  it('no worker can renew - known workers stay, and both sides report it', async ({ skip }) => {
    const folder = await temporaryFolder()
    if (!mount('-t', 'tmpfs', 'baton-test', folder)) skip('a tmpfs cannot be mounted here')
    atEnd(async () => void spawnSync('umount', ['-l', folder]))
    const failures: string[] = []
    const worker = discoveryOf(folder, { ttlMs: 600 })
    await worker.register(sampleCard(1), { renewalFailed: ({ message }) => failures.push(message) })
    await worker.register(sampleCard(2))
    const record = new DiscoveryRecord()
    await discoveryOf(folder, { ttlMs: 600 }).watch(record)
    mount('-o', 'remount,ro', folder)
    // Before the worker is closed, which removes its entries, also when the test has failed.
    atEnd(async () => void mount('-o', 'remount,rw', folder))
    await record.until(`away the folder ${folder} is read-only`)
    const endMs = performance.now() + 1_200
    await until('two more times to live pass', () => performance.now() > endMs)
    mount('-o', 'remount,rw', folder)
    await record.until('back')
    const silent = encodeCardFile({ card: sampleCard(3), machine: 'elsewhere' })
    await writeFile(join(folder, '3.json'), silent)
    await record.until('left 3 expired')
    expect(record.told.filter((line) => /left [12]/.test(line))).toEqual([])
    expect(failures.join()).toContain('EROFS')
  })

  it('a watcher that may only read - sees who joins, leaves and dies', async ({ skip }) => {
    const [folder, view] = [await temporaryFolder(), await temporaryFolder()]
    if (!mount('--bind', folder, view)) skip('a folder cannot be mounted here')
    atEnd(async () => void spawnSync('umount', ['-l', view]))
    mount('-o', 'remount,ro,bind', view)
    const record = new DiscoveryRecord()
    await discoveryOf(view, { ttlMs: 600 }).watch(record)
    await discoveryOf(folder, { ttlMs: 600 }).register(sampleCard(1))
    const dead = { card: sampleCard(2, { pid: await deadPid() }), machine: processPlace() }
    await writeFile(join(folder, '2.json'), encodeCardFile(dead))
    const silent = encodeCardFile({ card: sampleCard(3), machine: 'elsewhere' })
    await writeFile(join(folder, '3.json'), silent)
    await record.until('left 3 expired')
    expect(record.told.filter((line) => /\b[12]\b/.test(line))).toEqual(['joined 1'])
  })

  it('a watcher that may only read, and workers that pause - it is away until one renews again, and silent ones expire', async ({
    skip,
  }) => {
    const { view, write, renew } = await readOnlyView(skip)
    await write(1)
    const record = new DiscoveryRecord()
    const watch = await discoveryOf(view, { ttlMs: 300 }).watch(record)
    await record.until('away')
    await write(2)
    await record.until('back')
    renew(1)
    await record.until('left 2 expired')
    expect([...watch.cards.keys()]).toEqual(['1'])
  })

  it('a watcher that may only read, and an entry that it cannot delete - does not join again', async ({
    skip,
  }) => {
    const { view, write, renew } = await readOnlyView(skip)
    await write(1)
    renew(1)
    await write(2)
    const record = new DiscoveryRecord()
    const watch = await discoveryOf(view, { ttlMs: TTL_MS, pollMs: 10 }).watch(record)
    await record.until('left 2 expired')
    // From before the first attempt to delete it until after the second one would come.
    const startMs = performance.now()
    const passed = async (ttls: number): Promise<void> =>
      await until(`${ttls} times to live pass`, () => performance.now() > startMs + ttls * TTL_MS)
    await passed(LITTER_TTLS / 2)
    record.told.length = 0
    await passed(LITTER_TTLS + 20)
    expect(record.told.filter((line) => line.endsWith(' 2'))).toEqual([])
    expect([...watch.cards.keys()]).not.toContain('2')
  })
})

/** A folder, and a view of it that is read-only; its entries are those of workers on other machines. */
async function readOnlyView(skip: (why: string) => void) {
  const [folder, view] = [await temporaryFolder(), await temporaryFolder()]
  if (!mount('--bind', folder, view)) skip('a folder cannot be mounted here')
  atEnd(async () => void spawnSync('umount', ['-l', view]))
  mount('-o', 'remount,ro,bind', view)
  const pathOf = (id: number): string => join(folder, `${id}.json`)
  return {
    view,
    write: (id: number): Promise<void> =>
      writeFile(pathOf(id), encodeCardFile({ card: sampleCard(id), machine: 'elsewhere' })),
    renew: (id: number): void => {
      let beats = 0
      const beat = setInterval(() => utimesSync(pathOf(id), 1, ++beats), 10)
      atEnd(async () => clearInterval(beat))
    },
  }
}

describe('FileDiscovery - unusable folders', () => {
  it.each([
    ['/proc/x', /cannot be used as the folder of a fleet/],
    ['/proc/x/y', /\/proc\/x does not exist/],
    [`${tmpdir()}/no-such-parent-${randomUUID()}/fleet`, /no-such-parent-\S+ does not exist/],
    ['/dev/null', /it is a file/],
  ])('%s - is refused at once, by name', async (folder, why) => {
    for (const attempt of [
      () => discoveryOf(folder).register(sampleCard(1)),
      () => discoveryOf(folder).watch(new DiscoveryRecord()),
    ]) {
      const failure: unknown = await attempt().then(
        () => null,
        (error: unknown) => error,
      )
      expect(failure).toMatchObject({ code: 'config.invalid', message: expect.stringMatching(why) })
    }
  })

  it.each<[string, string, string, RegExp]>([
    ['to nothing', 'fleet', 'nowhere', /: it is a link to nowhere, which is not a folder: create/],
    ['to itself', 'fleet', 'fleet', /: it is a link to fleet, which is not a folder/],
    ['to nothing above it', 'fleet/a', 'nowhere', /: \S+fleet is a link to nowhere, which/],
  ])('a link %s - is named', async (_name, used, target, why) => {
    const folder = await temporaryFolder()
    await symlink(target, join(folder, 'fleet'))
    await expect(discoveryOf(join(folder, used)).register(sampleCard(1))).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringMatching(why) as unknown,
    })
  })

  it('a file that cannot be written - the error names it and the reason', async () => {
    const folder = await temporaryFolder()
    // The entry is written beside it and takes its place.
    await mkdir(join(folder, '1.json'))
    await expect(discoveryOf(folder).register(sampleCard(1))).rejects.toMatchObject({
      code: 'discovery.unavailable',
      message: `${join(folder, '1.json')} cannot be written (EISDIR)`,
    })
    expect(await readdir(folder)).toEqual(['1.json'])
  })

  it('a folder that does not exist - is created with access for its owner only, which is reported once', async () => {
    const folder = join(await temporaryFolder(), 'fleet')
    const made: string[] = []
    const discovery = discoveryOf(folder, { onFolderMade: (path) => void made.push(path) })
    await discovery.register(sampleCard(1))
    await discovery.watch(new DiscoveryRecord())
    expect(made).toEqual([folder])
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
  })

  it('a full disk - has its own error code and leaves no temporary file', async ({ skip }) => {
    const folder = await temporaryFolder()
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'baton-test', folder])
    if (mounted.status !== 0) skip('a small tmpfs cannot be mounted here')
    atEnd(async () => void spawnSync('umount', ['-l', folder]))
    await writeFile(join(folder, 'filler'), Buffer.alloc(64 * 1024)).catch(() => undefined)
    const failure: unknown = await discoveryOf(folder)
      .register(sampleCard(1))
      .then(
        () => null,
        (error: unknown) => error,
      )
    expect(failure).toMatchObject({ code: 'host.disk_full' })
    expect((await readdir(folder)).filter((name) => name.endsWith('.tmp'))).toEqual([])
    // A worker that is registered already logs it once, and renews when there is space again.
    await rm(join(folder, 'filler'))
    const said: string[] = []
    const worker = discoveryOf(folder, { ttlMs: 120 })
    await worker.register(sampleCard(2), {
      renewalFailed: ({ code }) => void said.push(code),
      restored: () => void said.push('restored'),
    })
    await writeFile(join(folder, 'filler'), Buffer.alloc(64 * 1024)).catch(() => undefined)
    await rm(join(folder, '2.json'))
    await writeFile(join(folder, 'more'), Buffer.alloc(64 * 1024)).catch(() => undefined)
    await until('the failure is reported', () => said.includes('host.disk_full'))
    await rm(join(folder, 'filler'))
    await rm(join(folder, 'more'), { force: true })
    await until('it is back', () => said.includes('restored'))
    expect(said.filter((line) => line === 'host.disk_full')).toHaveLength(1)
  })

  it('a folder without write permission - is named', async ({ skip }) => {
    if (process.getuid?.() === 0) skip('root may write anywhere')
    const folder = await temporaryFolder()
    await mkdir(join(folder, 'fleet'))
    await chmod(join(folder, 'fleet'), 0o500)
    await expect(discoveryOf(join(folder, 'fleet')).register(sampleCard(1))).rejects.toMatchObject({
      code: 'config.invalid',
    })
  })
})
