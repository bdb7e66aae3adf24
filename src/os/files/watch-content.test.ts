import { mkdtempSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { watchContent } from './watch-content.ts'

function watched(known: string | null): { path: string; changes: () => number; close: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'baton-watch-'))
  const path = join(folder, 'file')
  writeFileSync(path, 'one')
  let changes = 0
  const close = watchContent(path, known, () => changes++, 2)
  onTestFinished(() => {
    close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { path, changes: () => changes, close }
}

it('a change before the first check - is noticed, also one that keeps time and size', async () => {
  const { path, changes } = watched('one')
  const { atime, mtime } = statSync(path)
  writeFileSync(path, 'two')
  utimesSync(path, atime, mtime)
  await until('the change is noticed', () => changes() === 1)
})

it('a file that is replaced, removed and restored - is noticed once each time', async () => {
  const { path, changes } = watched('one')
  writeFileSync(`${path}.new`, 'two')
  renameSync(`${path}.new`, path)
  await until('replaced', () => changes() === 1)
  rmSync(path)
  await until('gone', () => changes() === 2)
  writeFileSync(path, 'two')
  await until('back', () => changes() === 3)
})

it("known content that differs from the file's - is reported", async () => {
  const { changes } = watched('zero')
  await until('told', () => changes() === 1)
})
