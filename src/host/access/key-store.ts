/** The interface of a key storage for commands that make and revoke keys. */
import type { KeyEntry } from './key-entry.ts'

/** Every method rejects with a `BatonError` when the storage cannot be read or written. */
export interface KeyStore {
  list(): Promise<readonly KeyEntry[]>
  add(entry: KeyEntry): Promise<void>
  /** False: the key does not exist. */
  change(id: string, next: (entry: KeyEntry) => KeyEntry): Promise<boolean>
  close(): Promise<void>
}
