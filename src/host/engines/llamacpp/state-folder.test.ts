import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { StateFolder } from './state-folder.ts'

function parentFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}
const bytes = Uint8Array.of(1, 2, 3)

describe('state folder', () => {
  it('both ways - bytes come through a file that is gone afterwards, the folder goes with close', async () => {
    const parent = parentFolder()
    const folder = new StateFolder([parent])
    const save = (path: string) => Promise.resolve(writeFileSync(path, bytes))
    expect(new Uint8Array(await folder.collect(save))).toEqual(bytes)
    let seen: Uint8Array | undefined
    await folder.offer(bytes, (path) => Promise.resolve((seen = readFileSync(path))))
    expect(new Uint8Array(seen ?? [])).toEqual(bytes)
    expect(readdirSync(join(parent, readdirSync(parent)[0] ?? ''))).toEqual([])
    folder.close()
    folder.close()
    expect(readdirSync(parent)).toEqual([])
  })

  it('a place that cannot be used, or is full - the next one is taken; the last failure is told', async () => {
    const parent = parentFolder()
    const missing = join(parent, 'none')
    const taken: string[] = []
    const folder = new StateFolder([missing, parent])
    await folder.offer(bytes, (path) => Promise.resolve(taken.push(path)))
    expect(taken).toHaveLength(1)
    folder.close()
    await expect(new StateFolder([missing]).offer(bytes, () => Promise.resolve())).rejects.toThrow(
      'ENOENT',
    )
  })
})
