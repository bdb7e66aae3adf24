import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { readBoundedBytes, readSmallFile } from './read-small-file.ts'

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baton-read-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

function pipe(): string {
  const path = join(folder(), 'pipe')
  execFileSync('mkfifo', [path])
  return path
}

describe('readSmallFile', () => {
  it('a file - is read as a whole; an empty one is empty', () => {
    const path = join(folder(), 'file')
    for (const content of ['', 'ä: 1\n', 'x'.repeat(1_000_000)]) {
      writeFileSync(path, content)
      expect(readSmallFile(path)).toBe(content)
    }
  })

  it('at the limit, and a byte above it', () => {
    const path = join(folder(), 'file')
    writeFileSync(path, 'x'.repeat(100))
    expect(readBoundedBytes(path, { maxBytes: 100 })).toHaveLength(100)
    expect(() => readBoundedBytes(path, { maxBytes: 99 })).toThrow(
      /EFBIG: more than 99 bytes, read '.*file'/,
    )
  })

  it('a missing file, a folder - the error of the system', () => {
    expect(() => readSmallFile('/nowhere')).toThrow(/ENOENT/)
    expect(() => readSmallFile(folder())).toThrow(/EISDIR/)
  })

  it.skipIf(process.platform === 'win32')('a device without end - is refused', () => {
    expect(() => readSmallFile('/dev/zero')).toThrow(/more than 16777216 bytes, read '\/dev\/zero'/)
  })

  it.skipIf(process.platform === 'win32')(
    'a pipe - is waited for; without a writer it is refused',
    () => {
      const path = pipe()
      const writer = spawn('sh', [
        '-c',
        'sleep 0.3; (echo a: 1; sleep 0.3; echo b: 2) > "$0"',
        path,
      ])
      onTestFinished(() => void writer.kill())
      expect(readSmallFile(path)).toBe('a: 1\nb: 2\n')
      expect(() => readSmallFile(pipe(), { silentMs: 50 })).toThrow(
        /ETIMEDOUT: nothing was written for 0.05 s, read '.*pipe'/,
      )
    },
  )

  it.skipIf(process.platform === 'win32')('a silent pipe - is waited for 10 s', () => {
    const clock = vi.spyOn(performance, 'now')
    onTestFinished(() => clock.mockRestore())
    let reads = 0
    // The clock of each read: before the first one, at the limit, above it.
    clock.mockImplementation(() => [0, 10_000, 10_001][reads++] ?? Infinity)
    expect(() => readSmallFile(pipe())).toThrow('nothing was written for 10 s')
    expect(reads).toBe(3)
  })
})
