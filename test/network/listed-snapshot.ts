/** A snapshot of the given batches, for tests of connections; what is published meanwhile is sent unchanged. */
import type { KvEventBatch } from '../../src/kv/index.ts'
import type { KvSnapshot } from '../../src/wire/index.ts'

export function listedSnapshot(...batches: readonly KvEventBatch[]): KvSnapshot {
  const left = [...batches]
  return {
    next: () => left.shift() ?? null,
    follow: ({ events }) => events,
    close: () => left.splice(0),
  }
}
