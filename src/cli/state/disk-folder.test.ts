import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { DiskFolder } from './disk-folder.ts'

const path = mkdtempSync(join(tmpdir(), 'baton-disk-folder-'))
afterAll(() => rmSync(path, { recursive: true }))

describe('DiskFolder', () => {
  it('write, append, truncate, read and count', async () => {
    const folder = DiskFolder.open(path, 'one')
    expect(await folder.read('a')).toBeUndefined()
    await folder.write('a', 'one')
    await folder.append('a', '\ntwo')
    expect([await folder.read('a'), await folder.bytesOf('a')]).toEqual(['one\ntwo', 7])
    await folder.truncate('a', 3)
    const pieces: Uint8Array[] = []
    for await (const piece of folder.pieces('a')) pieces.push(piece)
    expect(Buffer.concat(pieces).toString()).toBe('one')
    expect([await folder.names(), await folder.bytesOfAll()]).toEqual([['a'], 3])
    expect([await folder.remove('a'), await folder.remove('a')]).toEqual([true, false])
    for await (const piece of folder.pieces('a')) throw new Error(String(piece))
  })

  it('a lease belongs to one process - until it releases it, dies or stops renewing it', async () => {
    const one = DiskFolder.open(path, 'one')
    const leaseOf = (pid: number, host = hostname()) =>
      writeFileSync(join(path, 'x.lease'), JSON.stringify({ host, pid, instance: 'dead' }))
    expect([await one.lease('x'), await one.lease('x')]).toEqual([true, true])
    await one.release('x')

    leaseOf(process.ppid)
    expect(await one.lease('x')).toBe(false)
    leaseOf(1, 'another machine')
    expect(await one.lease('x')).toBe(false)
    const longAgo = Date.now() / 1000 - 31
    utimesSync(join(path, 'x.lease'), longAgo, longAgo)
    expect(await one.lease('x')).toBe(true)
    await one.release('x')

    // Process ids are far below this number.
    leaseOf(2 ** 30)
    expect(await one.lease('x')).toBe(true)
    leaseOf(process.pid)
    expect(await one.lease('x')).toBe(false)
    expect(await one.lease('x')).toBe(true)
  })

  it('a folder that cannot be created - the error names the option', () => {
    writeFileSync(join(path, 'plain'), '')
    expect(() => DiskFolder.open(join(path, 'plain', 'f'), 'one')).toThrow(/--files-dir .*plain/)
  })
})
