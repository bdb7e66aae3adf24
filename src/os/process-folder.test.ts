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

describe('ProcessFolder', () => {
  it('remove - deletes the folder with its content, also when called twice', () => {
    const parent = parentFolder()
    const folder = makeProcessFolder(parent, 'mine-')
    writeFileSync(join(folder.path, 'card.json'), '{}')
    folder.remove()
    folder.remove()
    expect(readdirSync(parent)).toEqual([])
  })

  it('the folder of a killed process - is deleted when the next is made; folders in use or of others stay', () => {
    const parent = parentFolder()
    const gone = spawnSync(process.execPath, ['-e', '']).pid
    const namespace = pidNamespace() || '0'
    mkdirSync(join(parent, `mine-${gone}-${namespace}-abcdef`))
    writeFileSync(join(parent, `mine-${gone}-${namespace}-abcdef`, 'card.json'), '{}')
    mkdirSync(join(parent, `other-${gone}-${namespace}-abcdef`))
    // A folder of another container that shares the parent; its process may be alive.
    mkdirSync(join(parent, `mine-${gone}-1-abcdef`))
    mkdirSync(join(parent, 'mine-too'))
    const first = makeProcessFolder(parent, 'mine-')
    const second = makeProcessFolder(parent, 'mine-')
    expect(existsSync(first.path)).toBe(true)
    expect(readdirSync(parent)).toHaveLength(5)
    second.remove()
  })
})
