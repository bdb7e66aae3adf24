import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { KeyBook } from './key-book.ts'
import { createKey, keysText, parseKeys } from './key-entry.ts'

const NOW = new Date('2030-01-01T00:00:00Z')

function fileOf(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'keys.json')
  writeFileSync(path, content)
  return path
}

describe('KeyBook', () => {
  it('a key - is found by its whole text and by nothing else', () => {
    const { text, entry } = createKey({ tenant: 'acme', models: ['a'] }, NOW)
    const book = new KeyBook([entry, createKey({ tenant: 'other' }, NOW).entry])
    expect(book.keyOf(text)).toMatchObject({ id: entry.id, tenant: 'acme', models: ['a'] })
    const last = text.at(-1) === 'A' ? 'B' : 'A'
    for (const wrong of [
      '',
      text.slice(0, -1),
      `${text}x`,
      `${text.slice(0, -1)}${last}`,
      entry.hash,
    ]) {
      expect(book.keyOf(wrong)).toBeNull()
    }
  })

  it('the file - contains no key text, and a revoked key is not valid', () => {
    const { text, entry } = createKey({ tenant: 'acme' }, NOW)
    expect(keysText([entry])).not.toContain(text)
    expect(keysText([entry])).not.toContain(text.split('_').slice(2).join('_'))
    expect(new KeyBook([{ ...entry, revokedAt: NOW.toISOString() }]).keyOf(text)).toBeNull()
    const expiring = new KeyBook([{ ...entry, expiresAt: NOW.toISOString() }])
    expect(expiring.keyOf(text)?.expiresAtEpochMs).toBe(NOW.getTime())
  })

  it('a changed file - is reloaded; a broken one changes nothing and is reported', async () => {
    const one = createKey({ tenant: 'one' }, NOW)
    const two = createKey({ tenant: 'two' }, NOW)
    const path = fileOf(keysText([one.entry]))
    const faults: string[] = []
    const book = KeyBook.open(path, ({ message }) => faults.push(message))
    onTestFinished(() => book.close())
    expect(book.keyOf(two.text)).toBeNull()
    writeFileSync(path, keysText([two.entry]))
    await until('the file was read again', () => book.keyOf(two.text) !== null)
    expect(book.keyOf(one.text)).toBeNull()
    writeFileSync(path, '{"keys": 5}')
    await until('the fault is told', () => faults.length > 0)
    expect(book.keyOf(two.text)?.tenant).toBe('two')
  })

  it.skipIf(process.platform === 'win32')(
    'a file replaced by a pipe without a writer - is reported without waiting for one',
    async () => {
      const { text, entry } = createKey({ tenant: 'one' }, NOW)
      const path = fileOf(keysText([entry]))
      const faults: string[] = []
      const book = KeyBook.open(path, ({ message }) => faults.push(message))
      onTestFinished(() => book.close())
      rmSync(path)
      execFileSync('mkfifo', [path])
      await until('the fault is told', () => faults.length > 0)
      expect(faults[0]).toContain('nothing was written for 0 s')
      expect(book.keyOf(text)?.tenant).toBe('one')
    },
  )

  it('a text instead of a file - is accepted', () => {
    const { text, entry } = createKey({ tenant: 'acme' }, NOW)
    const book = KeyBook.open(keysText([entry]), () => undefined)
    expect([book.size, book.keyOf(text)?.tenant]).toEqual([1, 'acme'])
  })

  it.each([
    ['no JSON', 'x', 'is not JSON'],
    ['another form', '{"key":[]}', 'keys'],
    ['an unknown term', '{"keys":[{"admin":true}]}', 'keys.0'],
    ['a limit of nothing', '{"keys":[{"rate":0}]}', 'keys.0'],
  ])('%s - is refused with its place', (_, text, message) => {
    expect(() => parseKeys(text, 'keys.json')).toThrow(message)
  })

  it.each(['a\u0000b', 'a\nb', 'a\u001B[2J', 'a\u009Bm', 'a'.repeat(129), ' '])(
    'tenant %j - no key is made or read for it, because it appears in logs and in the cache salt',
    (tenant) => {
      expect(() => createKey({ tenant }, NOW)).toThrow('the new key: tenant')
      const { entry } = createKey({ tenant: 'acme' }, NOW)
      expect(() => parseKeys(keysText([{ ...entry, tenant }]), 'k')).toThrow('k: keys.0.tenant')
    },
  )

  it('the same id twice - is refused', () => {
    const { entry } = createKey({ tenant: 'acme' }, NOW)
    expect(() => parseKeys(keysText([entry, entry]), 'keys.json')).toThrow('same id')
  })
})
