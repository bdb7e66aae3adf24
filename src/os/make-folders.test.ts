import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { makeFolders } from './make-folders.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-make-folders-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('makeFolders', () => {
  it('missing parents - are created for this user only; again is no error', () => {
    const path = join(folder, 'a', 'b', 'c')
    for (let time = 0; time < 2; time++) makeFolders(path)
    expect(statSync(path).mode & 0o777).toBe(0o700)
    expect(statSync(join(folder, 'a')).mode & 0o777).toBe(0o700)
  })

  it('a file in the place of the folder or of a parent - throws', () => {
    const file = join(folder, 'file')
    writeFileSync(file, '')
    expect(() => makeFolders(file)).toThrow(/file is not a folder/)
    expect(() => makeFolders(join(file, 'below'))).toThrow()
  })

  it.runIf(process.platform === 'linux')('a path where nothing can be created - throws', () => {
    expect(() => makeFolders('/proc/baton/files')).toThrow(/ENOENT/)
  })
})
