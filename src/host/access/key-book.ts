/**
 * The keys that are valid: from a file or from text, read again when the file changes.
 *
 * A file that is broken while the service runs changes nothing: the keys of before stay, and the fault is reported.
 */
import { timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BatonError } from '../../base/index.ts'
import type { ApiKey } from '../../frontend/index.ts'
import { watchContent } from '../../os/index.ts'
import { digestOf, parseKeys } from './key-entry.ts'
import type { KeyEntry } from './key-entry.ts'

const NOBODY = Buffer.alloc(32)
const TEXT = /^baton_([a-z0-9]{8})_[A-Za-z0-9_-]{43}$/

interface HeldKey {
  readonly digest: Buffer
  readonly key: ApiKey
}

export class KeyBook {
  #keys: ReadonlyMap<string, HeldKey>
  #close: () => void = () => undefined

  constructor(keys: readonly KeyEntry[]) {
    this.#keys = heldOf(keys)
  }

  /** `given`: JSON, or the path of a file of it, which is watched. Throws `config.invalid`. */
  static open(given: string, onFault: (error: BatonError) => void): KeyBook {
    if (given.trimStart().startsWith('{')) return new KeyBook(parseKeys(given, '--keys'))
    const text = readText(given)
    const book = new KeyBook(parseKeys(text, given))
    book.#watch(given, text, onFault)
    return book
  }

  get size(): number {
    return this.#keys.size
  }

  /** Those that have not been revoked. */
  get keys(): readonly ApiKey[] {
    return [...this.#keys.values()].map(({ key }) => key)
  }

  /** Takes the same time for a wrong key as for a right one. */
  keyOf(text: string): ApiKey | null {
    const held = this.#keys.get(TEXT.exec(text)?.[1] ?? '')
    const isRight = timingSafeEqual(digestOf(text), held?.digest ?? NOBODY)
    return isRight ? (held?.key ?? null) : null
  }

  close(): void {
    this.#close()
  }

  #watch(path: string, first: string, onFault: (error: BatonError) => void): void {
    this.#close = watchContent(path, first, () => {
      try {
        this.#keys = heldOf(parseKeys(readText(path), path))
      } catch (error) {
        onFault(BatonError.from(error))
      }
    })
  }
}

/** Throws `config.invalid`. */
export function readKeys(path: string): readonly KeyEntry[] {
  return parseKeys(readText(path), path)
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    throw new BatonError('config.invalid', `keys: ${path} cannot be read (${code})`)
  }
}

function heldOf(keys: readonly KeyEntry[]): ReadonlyMap<string, HeldKey> {
  const valid = keys.filter(({ revokedAt }) => revokedAt === undefined)
  return new Map(valid.map((entry) => [entry.id, held(entry)]))
}

function held(entry: KeyEntry): HeldKey {
  const { hash, createdAt: _, revokedAt: __, expiresAt, ...terms } = entry
  const digest = Buffer.from(hash.slice('sha256:'.length), 'hex')
  const expires = expiresAt === undefined ? {} : { expiresAtEpochMs: Date.parse(expiresAt) }
  return { digest, key: { ...terms, ...expires } as ApiKey }
}
