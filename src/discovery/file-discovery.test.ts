/** Faults that only a folder can have: leases, other PID namespaces, clock jumps, removed folders. */
import { spawnSync } from 'node:child_process'
import { rmSync, utimesSync } from 'node:fs'
import { readdir, readFile, rename, rm, stat, symlink, truncate } from 'node:fs/promises'
import { utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  atEnd,
  breakableFolder,
  deadPid,
  discoveryOf,
  endDiscoveriesAfterEach,
  runningProcess,
  temporaryFolder,
} from '../../test/fixtures/discovery-folder.ts'
import { processPlace } from '../os/index.ts'
import { until } from '../../test/until.ts'
import { decodeCardFile, encodeCardFile } from './card-file.ts'
import { DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
import { DISCOVERY_FAULT_CHECKS } from '../testing/discovery-faults.ts'

endDiscoveriesAfterEach()

/** A process that can be killed, with an entry in the folder that nobody renews or writes again. */
async function processWithEntry(
  folder: string,
  id: number,
): Promise<{ kill: () => Promise<void> }> {
  const { pid, kill } = await runningProcess()
  const file = { card: sampleCard(id, { pid }), machine: processPlace() }
  await writeFile(join(folder, `${id}.json`), encodeCardFile(file))
  return { kill }
}

describe('FileDiscovery - the folder is removed, and created again by the workers', () => {
  it.each(DISCOVERY_FAULT_CHECKS)('$name', async ({ run }) => {
    const folder = await temporaryFolder()
    const ttlMs = 900
    await run({
      worker: discoveryOf(folder, { ttlMs }),
      frontend: discoveryOf(folder, { ttlMs }),
      // A worker may write its entry again before the folder is empty.
      begin: () => rm(folder, { recursive: true, maxRetries: 10 }),
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

  it('removes what was registered here and leaves no file behind', async () => {
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

  it('an entry that could not be removed - is replaced when its process registers the id again', async () => {
    const { folder, breakIt, mendIt } = await breakableFolder()
    const discovery = discoveryOf(folder)
    const first = await discovery.register(sampleCard(1))
    await breakIt()
    await expect(first.close()).rejects.toThrow('ENOTDIR')
    await mendIt()
    const second = await discovery.register(sampleCard(1, { port: 2 }))
    await expect(discovery.register(sampleCard(1))).rejects.toMatchObject({
      code: 'request.conflict',
    })
    await second.close()
    expect(await readdir(folder)).toEqual([])
  })

  it('a folder that cannot be written - close returns', async () => {
    const { folder, breakIt } = await breakableFolder()
    const discovery = discoveryOf(folder)
    await discovery.register(sampleCard(1))
    await breakIt()
    await discovery.close()
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

  it('a process that died - leaves at once, and its file is removed later', async () => {
    const folder = await temporaryFolder()
    const { kill } = await processWithEntry(folder, 1)
    const record = new DiscoveryRecord()
    await discoveryOf(folder, { ttlMs: 900 }).watch(record)
    await kill()
    await record.until('left 1 process-died')
    await until('the file is gone', async () => (await readdir(folder)).length === 0)
    expect(record.told).toEqual(['joined 1', 'left 1 process-died'])
  })

  it('a process that died - is no orderly departure for any watcher, whichever notices it first', async () => {
    const folder = await temporaryFolder()
    const { kill } = await processWithEntry(folder, 1)
    const records = [20, 400, 500].map((pollMs) => ({ pollMs, record: new DiscoveryRecord() }))
    for (const { pollMs, record } of records) await discoveryOf(folder, { pollMs }).watch(record)
    await kill()
    for (const { record } of records) {
      await record.until('left 1')
      expect(record.told).toEqual(['joined 1', 'left 1 process-died'])
    }
  })

  it('the id of a process that died, registered again while its entry is still there - joins again', async () => {
    const folder = await temporaryFolder()
    const { kill } = await processWithEntry(folder, 1)
    const record = new DiscoveryRecord()
    await discoveryOf(folder).watch(record)
    await kill()
    await record.until('left 1 process-died')
    await discoveryOf(folder).register(sampleCard(1))
    await until('it is back', () => record.cards.has('1'))
    expect(record.told).toEqual(['joined 1', 'left 1 process-died', 'joined 1'])
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
    const ttlMs = 1_500
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

  it.each<[string, (path: string) => Promise<unknown>, RegExp]>([
    ['is cut off', (path) => truncate(path, 100), /not JSON/],
    [
      'has the card of another worker',
      async (path) => writeFile(path, await readFile(join(path, '../2.json'))),
      /differs from/,
    ],
    [
      'has another port',
      async (path) =>
        writeFile(path, (await readFile(path, 'utf8')).replace('"port": ', '"port": 1')),
      /content differs/,
    ],
    [
      'is a link to another file',
      async (path) => {
        await symlink(join(path, '../notes.txt'), `${path}.link`)
        await rename(`${path}.link`, path)
      },
      /not a file/,
    ],
  ])(
    'an entry that %s - is written again, and the worker reports it',
    async (_name, damage, why) => {
      const folder = await temporaryFolder()
      const notes = join(folder, 'notes.txt')
      await writeFile(notes, 'mine')
      await utimes(notes, 1000, 1000)
      const said: string[] = []
      const path = join(folder, '1.json')
      const discovery = discoveryOf(folder, { ttlMs: 900 })
      await discovery.register(sampleCard(2))
      await discovery.register(sampleCard(1), { restored: (text) => void said.push(text) })
      const whole = await readFile(path, 'utf8')
      await damage(path)
      await until('the fault is reported', () => said.some((text) => why.test(text)))
      await until('the entry is whole', async () => (await readFile(path, 'utf8')) === whole)
      expect([await readFile(notes, 'utf8'), (await stat(notes)).mtimeMs]).toEqual([
        'mine',
        1_000_000,
      ])
    },
  )

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
      await rm(folder, { recursive: true, force: true, maxRetries: 10 })
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
    await rm(folder, { recursive: true, force: true, maxRetries: 10 })
    await record.until('left 1 expired')
    expect(record.told.some((line) => line.startsWith('away'))).toBe(true)
  })
})
