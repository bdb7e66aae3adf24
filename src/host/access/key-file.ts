/** Stores keys in a file, which is read and replaced as a whole. */
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError, messageOf } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { keysText, parseKeys } from './key-entry.ts'
import type { KeyEntry } from './key-entry.ts'
import type { KeyStore } from './key-store.ts'

/** Throws `config.invalid`. */
export function readKeyText(path: string, limits: { readonly silentMs?: number } = {}): string {
  try {
    return readSmallFile(path, limits)
  } catch (error) {
    throw new BatonError('config.invalid', `keys: ${path} cannot be read: ${messageOf(error)}`)
  }
}

/** True when every user of this machine could add a key to the file. Windows has no such modes. */
export function isWorldWritable(path: string): boolean {
  try {
    return process.platform !== 'win32' && (statSync(path).mode & 0o002) !== 0
  } catch {
    // The keys were given as a text.
    return false
  }
}

/** The file need not exist when a key is added. */
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

/** The lock is held only for one read and one write; if it is older, its holder has died. */
const HELD_MS = 10_000
const RETRY_MS = 20

/**
 * Serialises changes of the file by several processes with a lock file: without it a process could overwrite the key
 * that another has just added.
 */
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
    // Other errors are reported by the write of the file itself.
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
