/** Keys in a file: read, and replaced as a whole. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
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
    add: async (entry) => write(path, [...(existsSync(path) ? list() : []), entry]),
    change: async (id, next) => {
      const keys = list()
      if (!keys.some((key) => key.id === id)) return false
      write(
        path,
        keys.map((key) => (key.id === id ? next(key) : key)),
      )
      return true
    },
    close: async () => undefined,
  }
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
