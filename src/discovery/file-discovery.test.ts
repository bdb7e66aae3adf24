/**
 * Faults that only a folder can have: leases, other PID namespaces, clock jumps, removed folders, full disks.
 */
import { randomUUID } from 'node:crypto'
import { spawn, spawnSync } from 'node:child_process'
import { rmSync, utimesSync } from 'node:fs'
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  atEnd,
  discoveryOf,
  endDiscoveriesAfterEach,
  temporaryFolder,
} from '../../test/fixtures/discovery-folder.ts'
import { processPlace } from '../os/index.ts'
import { until } from '../../test/until.ts'
import { decodeCardFile, encodeCardFile } from './card-file.ts'
import { DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
import { DISCOVERY_FAULT_CHECKS } from '../testing/discovery-faults.ts'
import { Renewals } from './renewals.ts'

endDiscoveriesAfterEach()

async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', ''])
  await new Promise((resolve) => child.once('exit', resolve))
  return child.pid ?? 0
}

describe('FileDiscovery - the folder is removed, and created again by the workers', () => {
  it.each(DISCOVERY_FAULT_CHECKS)('$name', async ({ run }) => {
    const folder = await temporaryFolder()
    const ttlMs = 400
    await run({
      worker: discoveryOf(folder, { ttlMs }),
      frontend: discoveryOf(folder, { ttlMs }),
      begin: () => rm(folder, { recursive: true }),
      end: () => undefined,
      isTold: false,
      ttlMs,
    })
  })
})

describe('FileDiscovery - close', () => {
  it('close during a scan of a folder that is removed - reports nothing more', async () => {
    const told: string[] = []
    const observer = {
      joined: () => undefined,
      left: () => undefined,
      discoveryAway: (why: string) => told.push(why),
    }
    for (let i = 0; i < 100; i++) {
      const folder = await temporaryFolder()
      const discovery = discoveryOf(folder)
      // A scan starts as soon as the watch is open.
      await discovery.watch(observer)
      const closed = discovery.close()
      rmSync(folder, { recursive: true })
      await closed
    }
    await new Promise((resolve) => setImmediate(resolve))
    expect(told).toEqual([])
  })
})

describe('FileDiscovery - leases', () => {
  it('an entry that is not renewed any more - leaves after the time to live', async () => {
    const folder = await temporaryFolder()
    const card = sampleCard(1, { pid: 1 })
    await writeFile(join(folder, '1.json'), encodeCardFile({ card, machine: 'elsewhere' }))
    const record = new DiscoveryRecord()
    await discoveryOf(folder, { ttlMs: 200 }).watch(record)
    await record.until('left 1 expired')
    expect(record.told).toEqual(['joined 1', 'left 1 expired'])
  })

  it('a wall clock that jumps, at the worker or here - expires no worker that renews', async () => {
    const folder = await temporaryFolder()
    const path = join(folder, '1.json')
    await writeFile(path, encodeCardFile({ card: sampleCard(1), machine: 'elsewhere' }))
    const record = new DiscoveryRecord()
    await discoveryOf(folder, { ttlMs: 400 }).watch(record)
    // Heartbeats of a worker whose clock is set an hour back, an hour ahead, a day back.
    let beat = 0
    const beats = setInterval(() => {
      const jumpMs = [0, -3_600_000, 3_600_000, -86_400_000][beat++ % 4] ?? 0
      const mark = new Date(Date.now() + jumpMs)
      utimesSync(path, mark, mark)
    }, 50)
    atEnd(async () => clearInterval(beats))
    // Waits three times to live as the watch counts them: three entries that nobody renews expire one after the
    // other.
    for (const id of [2, 3, 4]) {
      const silent = encodeCardFile({ card: sampleCard(id), machine: 'elsewhere' })
      await writeFile(join(folder, `${id}.json`), silent)
      await record.until(`left ${id} expired`)
    }
    clearInterval(beats)
    expect(record.told.filter((line) => /^\w+ 1\b/.test(line))).toEqual(['joined 1'])
    // Its last timestamp is a day in the future, and it expires all the same.
    const ahead = new Date(Date.now() + 86_400_000)
    await utimes(path, ahead, ahead)
    await record.until('left 1 expired')
  })

  it('a process that died - leaves at once, and its file is removed', async () => {
    const folder = await temporaryFolder()
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    const exited = new Promise((resolve) => child.once('exit', resolve))
    const record = new DiscoveryRecord()
    await discoveryOf(folder).register(sampleCard(1, { pid: child.pid ?? 0 }))
    const watching = discoveryOf(folder, { ttlMs: 600_000 })
    await watching.watch(record)
    child.kill('SIGKILL')
    await exited
    await record.until('left 1 process-died')
  })

  it('a process id of another PID namespace or machine - is not used', async () => {
    const folder = await temporaryFolder()
    const card = sampleCard(1, { pid: await deadPid() })
    await discoveryOf(folder, { place: 'host/boot/other namespace' }).register(card)
    const record = new DiscoveryRecord()
    await discoveryOf(folder, { ttlMs: 600_000 }).watch(record)
    const looks = discoveryOf(folder)
    const second = new DiscoveryRecord()
    await looks.watch(second)
    await looks.register(sampleCard(2))
    await record.until('joined 2')
    expect(record.told).toEqual(['joined 1', 'joined 2'])
    expect(await readdir(folder)).toContain('1.json')
  })

  it.runIf(process.platform === 'linux')(
    'the place of a process - contains its namespace',
    async () => {
      const namespaced = spawnSync('unshare', [
        '--fork',
        '--pid',
        '--mount-proc',
        'readlink',
        '/proc/self/ns/pid',
      ])
      if (namespaced.status !== 0) return
      expect(processPlace()).toMatch(/\/\d+$/)
      expect(processPlace()).not.toContain(/\d+/.exec(namespaced.stdout.toString())?.[0])
    },
  )

  it('an id whose owner elsewhere renews - is refused; one whose owner does not is taken over', async () => {
    const folder = await temporaryFolder()
    const ttlMs = 300
    const elsewhere = discoveryOf(folder, { place: 'elsewhere', ttlMs })
    await elsewhere.register(sampleCard(1, { pid: 1 }))
    const here = discoveryOf(folder, { ttlMs })
    await expect(here.register(sampleCard(1))).rejects.toMatchObject({ code: 'request.conflict' })
    const card = sampleCard(2, { pid: 1 })
    await writeFile(join(folder, '2.json'), encodeCardFile({ card, machine: 'elsewhere' }))
    await here.register(sampleCard(2))
    const { machine } = decodeCardFile(await readFile(join(folder, '2.json'), 'utf8'))
    expect(machine).toBe(processPlace())
  })
})

describe('FileDiscovery - entry or folder is removed', () => {
  it('a removed entry - is written again at once, and the worker reports it', async () => {
    const folder = await temporaryFolder()
    const said: string[] = []
    await discoveryOf(folder, { ttlMs: 600_000 }).register(sampleCard(1), {
      restored: (why) => void said.push(why),
    })
    await rm(join(folder, '1.json'))
    await until('the entry is back', async () => (await readdir(folder)).includes('1.json'))
    await until('the fault is reported', () => said.length > 0)
    expect(said).toEqual([expect.stringMatching(/1\.json was removed/)])
  })

  it('the folder is removed twice - no worker leaves, all register again, both sides report it', async () => {
    const folder = await temporaryFolder()
    const said: string[] = []
    const record = new DiscoveryRecord()
    const workers = discoveryOf(folder, { ttlMs: 900 })
    for (const id of [1, 2, 3]) {
      await workers.register(sampleCard(id), { restored: (why) => void said.push(why) })
    }
    await discoveryOf(folder, { ttlMs: 900 }).watch(record)
    for (const round of [1, 2]) {
      await rm(folder, { recursive: true, force: true })
      await until('all are back', async () => {
        const names = await readdir(folder).catch(() => [])
        return names.filter((name) => name.endsWith('.json')).length === 3
      })
      await until('all have reported the fault', () => said.length >= 3 * round)
    }
    const late = sampleCard(4)
    await workers.register(late)
    await record.until('joined 4')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
    expect([...record.cards.keys()].sort()).toEqual(['1', '2', '3', '4'])
  })

  it('the folder is removed for good - known workers stay for their time to live, then expire', async () => {
    const folder = await temporaryFolder()
    await writeFile(
      join(folder, '1.json'),
      encodeCardFile({ card: sampleCard(1), machine: 'elsewhere' }),
    )
    const record = new DiscoveryRecord()
    await discoveryOf(folder, { ttlMs: 300 }).watch(record)
    await rm(folder, { recursive: true, force: true })
    await record.until('left 1 expired')
    expect(record.told.some((line) => line.startsWith('away'))).toBe(true)
  })
})

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
  const mount = (...args: string[]): boolean => spawnSync('mount', args).status === 0

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
})

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

  it('close - removes what was registered here and leaves no file behind', async () => {
    const folder = await temporaryFolder()
    const discovery = discoveryOf(folder, { ttlMs: 30 })
    const before = (await discovery.register(sampleCard(1)), await stat(join(folder, '1.json')))
    await discovery.register(sampleCard(2))
    await until('a beat', async () => {
      return (await stat(join(folder, '1.json'))).mtimeMs !== before.mtimeMs
    })
    await discovery.close()
    expect(await readdir(folder)).toEqual([])
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

describe('Renewals - which entries are valid', () => {
  it('a mark that changes - is valid for the time to live, to the millisecond', () => {
    const renewals = new Renewals(1_000, 0)
    expect(renewals.see('a', 1, 0)).toBe(true)
    renewals.look(400)
    renewals.look(800)
    expect(renewals.see('a', 1, 1_000)).toBe(true)
    expect(renewals.see('a', 1, 1_001)).toBe(false)
    expect(renewals.see('a', 0, 1_002)).toBe(true)
    expect(renewals.holds('a', 2_002)).toBe(true)
    expect(renewals.holds('a', 2_003)).toBe(false)
  })

  it('a granted time - is not shortened by an earlier renewal', () => {
    const renewals = new Renewals(1_000, 0)
    renewals.see('a', 1, 0)
    renewals.grant(4_000)
    renewals.see('a', 2, 100)
    expect(renewals.holds('a', 5_000)).toBe(true)
    expect(renewals.holds('a', 5_001)).toBe(false)
    renewals.see('a', 3, 5_100)
    expect(renewals.holds('a', 6_100)).toBe(true)
    expect(renewals.holds('a', 6_101)).toBe(false)
  })

  it('a watcher that was suspended - extends all entries by the time that it missed', () => {
    const renewals = new Renewals(1_000, 0)
    renewals.see('a', 1, 0)
    renewals.look(60_000)
    expect(renewals.see('a', 1, 60_000)).toBe(true)
    renewals.look(60_400)
    renewals.look(60_800)
    renewals.look(61_001)
    expect(renewals.see('a', 1, 61_001)).toBe(false)
  })
})
