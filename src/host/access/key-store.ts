/** Where keys are kept, for who makes and revokes them. */
import type { KeyEntry } from './key-entry.ts'

/** Every method rejects with a `BatonError` when the place cannot be read or written. */
export interface KeyStore {
  list(): Promise<readonly KeyEntry[]>
  add(entry: KeyEntry): Promise<void>
  /** False: there is no such key. */
  change(id: string, next: (entry: KeyEntry) => KeyEntry): Promise<boolean>
  close(): Promise<void>
}
