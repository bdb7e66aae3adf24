import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { DiskFolder } from './disk-folder.ts'

const path = mkdtempSync(join(tmpdir(), 'baton-disk-folder-'))
afterAll(() => rmSync(path, { recursive: true }))

function opened(instance = 'one', at = path): DiskFolder {
  return DiskFolder.open(at, { place: 'here', pid: 1, instance }, () => 0)
}

describe('DiskFolder', () => {
  it('write, append, read and count', async () => {
    const folder = opened()
    expect(await folder.read('a')).toBeUndefined()
    await folder.write('a', 'one')
    await folder.append('a', '\ntwo')
    expect([await folder.read('a'), await folder.bytesOf('a')]).toEqual(['one\ntwo', 7])
    const pieces: Uint8Array[] = []
    for await (const piece of folder.pieces('a', 3)) pieces.push(piece)
    expect(Buffer.concat(pieces).toString()).toBe('one')
    for await (const piece of folder.pieces('a', 0)) throw new Error(String(piece))
    expect([await folder.names(), await folder.bytesOfAll()]).toEqual([['a'], 7])
    expect([await folder.remove('a'), await folder.remove('a')]).toEqual([true, false])
    for await (const piece of folder.pieces('a')) throw new Error(String(piece))
  })

  it('a file that is owned - what an earlier owner still writes is lost', async () => {
    const bytes = (text: string) => new TextEncoder().encode(text)
    const folder = opened()
    const first = await folder.own('b', 0, async () => true)
    await first?.append(bytes('one\ntorn'))
    const second = await opened('two').own('b', 4, async () => true)
    expect(await folder.own('b', 0, async () => false)).toBe(null)
    await first?.append(bytes(' late'))
    await second?.append(bytes('two\n'))
    await Promise.all([first?.close(), second?.close()])
    expect(await folder.read('b')).toBe('one\ntwo\n')
    expect(await folder.names()).toEqual(['b'])
    await folder.remove('b')
  })

  it('a copy that an earlier process has left - is removed by the next owner, and not counted', async () => {
    const folder = opened('three')
    await folder.write('b', 'one')
    await folder.write('.draft-two-1-b', 'on')
    expect(await folder.bytesOfAll()).toBe(3)
    const file = await folder.own('b', 3, async () => true)
    await file?.close()
    expect(await folder.names()).toEqual(['b'])
    await folder.remove('b')
  })

  it('a folder that cannot be created - the error names the option', () => {
    writeFileSync(join(path, 'plain'), '')
    expect(() => opened('one', join(path, 'plain', 'f'))).toThrow(/--files-dir .*plain/)
  })
})
