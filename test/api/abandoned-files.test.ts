/** Removal of files that a process left in `--files-dir` when it died during an upload or a batch. */
import { mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { StoredBatches } from '../../src/frontend/batches/stored-batches.ts'
import { StoredFiles } from '../../src/frontend/batches/stored-files.ts'
import { osClock } from '../../src/os/index.ts'
import { DiskFolder } from '../../src/cli/state/disk-folder.ts'

const path = join(tmpdir(), `baton-abandoned-${process.pid}`)
beforeEach(() => mkdirSync(path))
afterEach(() => rmSync(path, { recursive: true }))

const ID = (digit: string): string => `file-${digit.repeat(32)}`

function left(name: string, idleSeconds: number): void {
  writeFileSync(join(path, name), 'bytes')
  const then = Date.now() / 1000 - idleSeconds
  utimesSync(join(path, name), then, then)
}

const opened = () => DiskFolder.open(path, { place: 'here', pid: 1, instance: 'one' }, () => 0)

it('content files without a record - are deleted two days after their last write, other files are kept', async () => {
  const folder = opened()
  const files = new StoredFiles(
    { folder, fileBytesMax: 1e6, bytesMax: 1e6, keepSeconds: 1e6, requestsMax: 1 },
    osClock,
  )
  const days = (count: number): number => count * 86_400
  left(`${ID('a')}.content`, days(2) + 60)
  left(`${ID('b')}.content`, days(2) - 60)
  left('.draft-1-1-x', days(3))
  left('batch_x.lease', days(9))
  left('notes.content', days(9))
  left(`${ID('c')}.content`, days(9))
  const whole = { id: ID('c'), tenant: 't', fileName: 'x', purpose: 'batch' }
  await files.publish(whole, 5)
  // A batch may wait for a worker for days.
  left(`${ID('d')}.content`, days(9))
  await files.forgetExpired(new Set([ID('d')]))
  expect(readdirSync(path).toSorted()).toEqual(
    [
      'batch_x.lease',
      `${ID('b')}.content`,
      `${ID('c')}.content`,
      `${ID('c')}.json`,
      `${ID('d')}.content`,
      'notes.content',
    ].toSorted(),
  )
})

it('leases, also one that was being removed - are deleted when their batch has ended', async () => {
  const batch = (digit: string): string => `batch_${digit.repeat(32)}`
  const record = (digit: string, state: string): void =>
    writeFileSync(join(path, `${batch(digit)}.json`), JSON.stringify({ state, createdSeconds: 9 }))
  record('1', 'completed')
  record('2', 'in_progress')
  for (const digit of ['1', '2', '3']) {
    for (const end of ['', '.two']) left(`${batch(digit)}.lease${end}`, 60)
  }
  const folder = opened()
  await new StoredBatches(folder, { ...osClock, epochMs: () => 10_000 }).forget(60)
  expect((await folder.names()).toSorted()).toEqual([
    `${batch('1')}.json`,
    `${batch('2')}.json`,
    `${batch('2')}.lease`,
    `${batch('2')}.lease.two`,
  ])
})
