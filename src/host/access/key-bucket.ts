/**
 * Keys in a NATS bucket, `<prefix>_keys`: one entry per key, so that two people can add keys at the same time.
 */
import { NatsTable } from '../../discovery/index.ts'
import type { NatsAddress } from '../../discovery/index.ts'
import type { BatonError } from '../../base/index.ts'
import { KeyBook } from './key-book.ts'
import { parseKey } from './key-entry.ts'
import type { KeyStore } from './key-store.ts'

const NAME = 'keys'

/**
 * Rejects with `discovery.unavailable` when no server answers for 15 s, and with `config.invalid` when it refuses
 * this process.
 */
export async function keyBucket(address: NatsAddress): Promise<KeyStore> {
  const table = new NatsTable({ address, name: NAME })
  try {
    await table.open()
  } catch (error) {
    await table.close()
    throw error
  }
  return {
    list: async () => [...(await table.read())].map(([id, text]) => parseKey(text, `key ${id}`)),
    add: (entry) => table.create(entry.id, JSON.stringify(entry)),
    change: (id, next) =>
      table.change(id, (text) => JSON.stringify(next(parseKey(text, `key ${id}`)))),
    close: () => table.close(),
  }
}

interface KeyBucketObserver {
  /** Called for an invalid key. */
  fault(error: BatonError): void
  away(why: string): void
  back(): void
  /** The bucket was deleted, or the server has lost it; the known keys stay valid. */
  lost(): void
  /** The keys are those of a new bucket, which lacks `missing` of the known ones. */
  replaced(missing: number): void
}

/** Follows the keys of the bucket from now on. Rejects like `keyBucket`. */
export async function followKeyBucket(
  address: NatsAddress,
  observer: KeyBucketObserver,
  openMs?: number,
): Promise<{ readonly book: KeyBook; close(): Promise<void> }> {
  const table = new NatsTable({
    address,
    name: NAME,
    onAway: (why) => observer.away(why),
    onBack: () => observer.back(),
    onLost: () => observer.lost(),
    onReplaced: (missing) => observer.replaced(missing),
    ...(openMs === undefined ? {} : { openMs }),
  })
  try {
    await table.follow()
  } catch (error) {
    await table.close()
    throw error
  }
  const book = KeyBook.follow(table, (error) => observer.fault(error))
  return { book, close: () => table.close() }
}
