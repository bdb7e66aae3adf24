/**
 * The valid keys: from a file, which is reloaded when it changes, from a text, or from a source that reports
 * changes.
 *
 * If the content becomes invalid while the service runs, the previous keys stay valid and the fault is reported.
 */
import { timingSafeEqual } from 'node:crypto'
import { BatonError } from '../../base/index.ts'
import type { ApiKey } from '../../frontend/index.ts'
import { watchContent } from '../../os/index.ts'
import { digestOf, parseKey, parseKeys } from './key-entry.ts'
import type { KeyEntry } from './key-entry.ts'
import { readKeyText } from './key-file.ts'

const NOBODY = Buffer.alloc(32)
const TEXT = /^baton_([a-z0-9]{8})_[A-Za-z0-9_-]{43}$/

interface HeldKey {
  readonly digest: Buffer
  readonly key: ApiKey
}

/** Yields each key as a text of its own, by its id. */
interface KeySource {
  readonly texts: ReadonlyMap<string, string>
  onChange(listener: () => void): void
}

type OnFault = (error: BatonError) => void

export class KeyBook {
  #keys: ReadonlyMap<string, HeldKey>
  #close: () => void = () => undefined

  constructor(keys: readonly KeyEntry[]) {
    this.#keys = heldOf(keys)
  }

  /** `given`: JSON, or the path of a JSON file, which is watched. Throws `config.invalid`. */
  static open(given: string, onFault: OnFault): KeyBook {
    if (given.trimStart().startsWith('{')) return new KeyBook(parseKeys(given, '--keys'))
    const text = readKeyText(given)
    const book = new KeyBook(parseKeys(text, given))
    book.#watch(given, text, onFault)
    return book
  }

  /** A key that is invalid at the start is not accepted. */
  static follow(source: KeySource, onFault: OnFault): KeyBook {
    const book = new KeyBook([])
    const parser = new SourceParser(onFault)
    const take = (): void => {
      book.#keys = heldOf(parser.parse(source.texts))
    }
    take()
    source.onChange(take)
    return book
  }

  get size(): number {
    return this.#keys.size
  }

  /** The keys that have not been revoked. */
  get keys(): readonly ApiKey[] {
    return [...this.#keys.values()].map(({ key }) => key)
  }

  /** Takes constant time, for wrong keys too. */
  keyOf(text: string): ApiKey | null {
    const held = this.#keys.get(TEXT.exec(text)?.[1] ?? '')
    const isRight = timingSafeEqual(digestOf(text), held?.digest ?? NOBODY)
    return isRight ? (held?.key ?? null) : null
  }

  close(): void {
    this.#close()
  }

  #watch(path: string, first: string, onFault: OnFault): void {
    this.#close = watchContent(path, first, () => {
      try {
        // Waiting for a pipe would stop all streams.
        this.#keys = heldOf(parseKeys(readKeyText(path, { silentMs: 0 }), path))
      } catch (error) {
        onFault(BatonError.from(error))
      }
    })
  }
}

/** Parses only changed texts. An invalid text leaves its key unchanged and is reported once. */
class SourceParser {
  readonly #onFault: OnFault
  #known = new Map<string, { readonly text: string; readonly entry: KeyEntry | null }>()

  constructor(onFault: OnFault) {
    this.#onFault = onFault
  }

  parse(texts: ReadonlyMap<string, string>): readonly KeyEntry[] {
    this.#known = new Map(
      [...texts].map(([id, text]) => {
        const before = this.#known.get(id)
        const entry = before?.text === text ? before.entry : this.#read(id, text, before?.entry)
        return [id, { text, entry }]
      }),
    )
    return [...this.#known.values()].flatMap(({ entry }) => (entry === null ? [] : [entry]))
  }

  #read(id: string, text: string, before: KeyEntry | null = null): KeyEntry | null {
    try {
      const entry = parseKey(text, `key ${id}`)
      if (entry.id === id) return entry
      throw new BatonError(
        'config.invalid',
        `key ${id}: the entry contains another id, ${entry.id}`,
      )
    } catch (error) {
      this.#onFault(BatonError.from(error))
      return before
    }
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
