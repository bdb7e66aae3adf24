/** Removal of files that a process left in `--files-dir` when it died during an upload or a batch. */
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { StoredFiles } from '../../src/frontend/batches/stored-files.ts'
import { osClock } from '../../src/os/index.ts'
import { DiskFolder } from '../../src/cli/state/disk-folder.ts'

const path = mkdtempSync(join(tmpdir(), 'baton-abandoned-'))
afterEach(() => rmSync(path, { recursive: true }))

const ID = (digit: string): string => `file-${digit.repeat(32)}`

function left(name: string, idleSeconds: number): void {
  writeFileSync(join(path, name), 'bytes')
  const then = Date.now() / 1000 - idleSeconds
  utimesSync(join(path, name), then, then)
}

it('content files without a record - are deleted two days after their last write, other files are kept', async () => {
  const folder = DiskFolder.open(path, { place: 'here', pid: 1, instance: 'one' }, () => 0)
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
  await files.forgetExpired()
  expect(readdirSync(path).toSorted()).toEqual(
    [
      'batch_x.lease',
      `${ID('b')}.content`,
      `${ID('c')}.content`,
      `${ID('c')}.json`,
      'notes.content',
    ].toSorted(),
  )
})
