import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { pidNamespace } from './process-place.ts'
import { makeProcessFolder } from './process-folder.ts'

function parentFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

describe('folder of a process', () => {
  it('removed - is gone with what is in it, also when asked twice', () => {
    const parent = parentFolder()
    const folder = makeProcessFolder(parent, 'mine-')
    writeFileSync(join(folder.path, 'card.json'), '{}')
    folder.remove()
    folder.remove()
    expect(readdirSync(parent)).toEqual([])
  })

  it('what a killed process left - goes with the next folder; what is in use or of others stays', () => {
    const parent = parentFolder()
    const gone = spawnSync(process.execPath, ['-e', '']).pid
    const namespace = pidNamespace() || '0'
    mkdirSync(join(parent, `mine-${gone}-${namespace}-abcdef`))
    writeFileSync(join(parent, `mine-${gone}-${namespace}-abcdef`, 'card.json'), '{}')
    mkdirSync(join(parent, `other-${gone}-${namespace}-abcdef`))
    // Of another container that shares the folder: its process may live.
    mkdirSync(join(parent, `mine-${gone}-1-abcdef`))
    mkdirSync(join(parent, 'mine-too'))
    const first = makeProcessFolder(parent, 'mine-')
    const second = makeProcessFolder(parent, 'mine-')
    expect(existsSync(first.path)).toBe(true)
    expect(readdirSync(parent)).toHaveLength(5)
    second.remove()
  })
})
