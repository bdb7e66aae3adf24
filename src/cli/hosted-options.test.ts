import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { shmOf } from './hosted-options.ts'
import { resolveConfig } from './resolve-config.ts'
import { serveConfig } from './serve-config.ts'

const configOf = (flags: Readonly<Record<string, string>>) =>
  serveConfig(resolveConfig({ flags, environment: {}, file: undefined }))

describe('shmOf - the folder through which KV travels', () => {
  it('a folder of the user - is taken, whole', () => {
    const folder = mkdtempSync(join(tmpdir(), 'shm-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    expect(shmOf(configOf({ kvShmDir: `${folder}/` }))).toEqual({ shmDir: folder })
    expect(shmOf(configOf({ kvShmDir: folder, kvTransport: 'tcp' }))).toEqual({})
  })

  it('a folder that is not there - auto goes by TCP, shm is refused by name', () => {
    const kvShmDir = join(tmpdir(), 'there-is-none')
    expect(shmOf(configOf({ kvShmDir }))).toEqual({})
    expect(() => shmOf(configOf({ kvShmDir, kvTransport: 'shm' }))).toThrow(/there is no .*none/)
  })

  it.skipIf(!existsSync('/dev/shm'))('nothing said - the shared memory of the system', () => {
    expect([{}, { shmDir: '/dev/shm' }]).toContainEqual(shmOf(configOf({})))
  })
})
