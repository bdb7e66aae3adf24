import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { makeProcessFolder } from './process-folder.ts'
import { sharedMemoryFault } from './shared-memory.ts'

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
    mkdirSync(join(parent, `mine-${gone}-abcdef`))
    writeFileSync(join(parent, `mine-${gone}-abcdef`, 'card.json'), '{}')
    mkdirSync(join(parent, `other-${gone}-abcdef`))
    mkdirSync(join(parent, 'mine-too'))
    const first = makeProcessFolder(parent, 'mine-')
    const second = makeProcessFolder(parent, 'mine-')
    expect(existsSync(first.path)).toBe(true)
    expect(readdirSync(parent)).toHaveLength(4)
    second.remove()
  })
})

describe('shared memory', () => {
  it('a folder that is not there - says so; one that can be written is taken', () => {
    const parent = parentFolder()
    expect(sharedMemoryFault(parent)).toBeNull()
    expect(sharedMemoryFault(join(parent, 'none'))).toMatch(/there is no .*none/)
  })
})
