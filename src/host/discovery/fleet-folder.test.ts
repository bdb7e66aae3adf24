import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openFleetFolder } from './fleet-folder.ts'

function parentFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

describe('fleet folder', () => {
  it('its own - is there until it is removed, with what is in it', () => {
    const parent = parentFolder()
    const folder = openFleetFolder(null, parent)
    writeFileSync(join(folder.path, 'card.json'), '{}')
    folder.remove()
    folder.remove()
    expect(readdirSync(parent)).toEqual([])
  })

  it("the user's - is never made, swept or removed", () => {
    const parent = parentFolder()
    const folder = openFleetFolder(join(parent, 'mine'), parent)
    expect(readdirSync(parent)).toEqual([])
    mkdirSync(folder.path)
    folder.remove()
    expect(readdirSync(parent)).toEqual(['mine'])
  })

  it('what a killed server left - goes with the next one; what is in use or of others stays', () => {
    const parent = parentFolder()
    const gone = spawnSync(process.execPath, ['-e', '']).pid
    mkdirSync(join(parent, `baton-fleet-${gone}-abcdef`))
    writeFileSync(join(parent, `baton-fleet-${gone}-abcdef`, 'card.json'), '{}')
    mkdirSync(join(parent, `other-${gone}-abcdef`))
    const first = openFleetFolder(null, parent)
    const second = openFleetFolder(null, parent)
    expect(existsSync(first.path)).toBe(true)
    expect(readdirSync(parent)).toHaveLength(3)
    second.remove()
  })
})
