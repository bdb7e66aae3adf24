/** Keys in a file: read, and replaced as a whole. */
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError } from '../../base/index.ts'
import { keysText, parseKeys } from './key-entry.ts'
import type { KeyEntry } from './key-entry.ts'
import type { KeyStore } from './key-store.ts'

/** Throws `config.invalid`. */
export function readKeyText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new BatonError('config.invalid', `keys: ${path} cannot be read (${codeOf(error)})`)
  }
}

/** The file need not be there to add a key. */
export function keyFile(path: string): KeyStore {
  const list = (): readonly KeyEntry[] => parseKeys(readKeyText(path), path)
  return {
    list: async () => list(),
    add: (entry) => alone(path, () => write(path, [...(existsSync(path) ? list() : []), entry])),
    change: (id, next) =>
      alone(path, () => {
        const keys = list()
        if (!keys.some((key) => key.id === id)) return false
        write(
          path,
          keys.map((key) => (key.id === id ? next(key) : key)),
        )
        return true
      }),
    close: async () => undefined,
  }
}

/** Somebody else holds the file for the time of a read and a write; who holds it longer has died. */
const HELD_MS = 10_000
const RETRY_MS = 20

/** One process at a time changes the file: of two that had read the same, the second would undo what the first has written. */
async function alone<T>(path: string, work: () => T): Promise<T> {
  const lock = `${path}.lock`
  while (!taken(lock)) await sleep(RETRY_MS)
  try {
    return work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function taken(lock: string): boolean {
  try {
    writeFileSync(lock, '', { flag: 'wx', mode: 0o600 })
    return true
  } catch (error) {
    // What cannot be made at all is told by who writes the file itself.
    if (codeOf(error) !== 'EEXIST') return true
  }
  const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? { mtimeMs: Infinity }
  if (Date.now() - mtimeMs > HELD_MS) rmSync(lock, { force: true })
  return false
}

/** The file is replaced atomically, and only its owner may read it. */
function write(path: string, keys: readonly KeyEntry[]): void {
  const next = `${path}.${process.pid}.tmp`
  try {
    writeFileSync(next, keysText(keys), { mode: 0o600 })
    renameSync(next, path)
  } catch (error) {
    rmSync(next, { force: true })
    throw new BatonError('config.invalid', `--file: ${path} cannot be written (${codeOf(error)})`)
  }
}

function codeOf(error: unknown): string {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  return code
}
