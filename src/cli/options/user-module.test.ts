import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { importUserModule } from './user-module.ts'

const MIB = 1024 ** 2
const isWindows = process.platform === 'win32'

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-module-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

describe('importUserModule', () => {
  it('a file, also behind a link - is imported', async () => {
    const path = join(folder(), 'mine.mjs')
    const link = join(folder(), 'link.mjs')
    writeFileSync(path, 'export const answer = 42')
    symlinkSync(path, link)
    expect(await importUserModule(path, '--x')).toMatchObject({ answer: 42 })
    expect(await importUserModule(link, '--x')).toMatchObject({ answer: 42 })
  })

  it('16 MiB - is read; a byte more is refused', async () => {
    const path = join(folder(), 'large.mjs')
    writeFileSync(path, '')
    truncateSync(path, 16 * MIB)
    // Zeros are no JavaScript.
    await expect(importUserModule(path, '--x')).rejects.toThrow('--x: cannot be loaded: ')
    truncateSync(path, 16 * MIB + 1)
    await expect(importUserModule(path, '--x')).rejects.toThrow(
      '--x: the file is larger than 16777216 bytes',
    )
  })

  it.skipIf(isWindows)('a pipe without a writer, an endless device - are refused', async () => {
    const pipe = join(folder(), 'pipe.js')
    execFileSync('mkfifo', [pipe])
    const link = join(folder(), 'link.js')
    symlinkSync(pipe, link)
    for (const path of [pipe, link, '/dev/zero']) {
      await expect(importUserModule(path, `--x ${path}`)).rejects.toMatchObject({
        code: 'config.invalid',
        message: `--x ${path}: is not a file`,
      })
    }
  })

  it.each([
    ['no file', () => '/nowhere/x.js', '--x: the file does not exist'],
    [
      'a path through a file',
      () => {
        const path = join(folder(), 'a.js')
        writeFileSync(path, '')
        return join(path, 'b.js')
      },
      '--x: cannot be read: ENOTDIR',
    ],
    [
      'a folder',
      () => {
        const path = folder()
        mkdirSync(join(path, 'package'))
        writeFileSync(join(path, 'index.js'), 'export default 1')
        return path
      },
      '--x: is a folder; give the path of its file',
    ],
    [
      'no JavaScript',
      () => {
        const path = join(folder(), 'a.mjs')
        writeFileSync(path, 'export default (')
        return path
      },
      '--x: cannot be loaded: ',
    ],
  ])('%s - is refused in one line', async (_, path, message) => {
    const failed = importUserModule(path(), '--x')
    await expect(failed).rejects.toThrow(message)
    await expect(failed).rejects.toMatchObject({ code: 'config.invalid' })
  })
})
