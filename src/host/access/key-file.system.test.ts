import { existsSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runBaton } from '../../../test/running-server.ts'
import { createKey } from './key-entry.ts'
import { keyFile } from './key-file.ts'

const NOW = new Date('2030-01-01T00:00:00Z')

function place(): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'keys.json')
}

describe('keyFile', () => {
  it('several processes that add keys at once - no key is lost', async () => {
    const path = place()
    const tenants = Array.from({ length: 12 }, (_, i) => `t${i}`)
    await Promise.all(
      tenants.map((tenant) => runBaton(['keys', 'add', '--file', path, '--tenant', tenant])),
    )
    const kept = (await keyFile(path).list()).map(({ tenant }) => tenant)
    expect(kept.toSorted()).toEqual(tenants.toSorted())
    expect(existsSync(`${path}.lock`)).toBe(false)
    expect(statSync(path).mode & 0o077).toBe(0)
  })

  it('a process that died while it held the lock - is not waited for', async () => {
    const path = place()
    writeFileSync(`${path}.lock`, '')
    const longAgo = Date.now() / 1000 - 60
    utimesSync(`${path}.lock`, longAgo, longAgo)
    await keyFile(path).add(createKey({ tenant: 'a' }, NOW).entry)
    expect(await keyFile(path).list()).toHaveLength(1)
  })

  it('a missing folder - is reported', async () => {
    const store = keyFile('/nowhere/keys.json')
    await expect(store.add(createKey({ tenant: 'a' }, NOW).entry)).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringContaining('/nowhere/keys.json cannot be written'),
    })
  })
})
