/**
 * Reads all entries of a bucket. The NATS library has no limit for the time until the last entry arrives, and this one
 * may be deleted after it was counted and before it is sent.
 */
import type { KV, KvWatchEntry } from '@nats-io/kv'
import { unavailable } from './nats-session.ts'

/** Longest time until the next entry. */
const ENTRY_MS = 5000

/** Rejects with `discovery.unavailable` when an entry does not arrive. */
export async function bucketContent(bucket: KV): Promise<readonly KvWatchEntry[]> {
  const entries: KvWatchEntry[] = []
  const history = await bucket.history()
  let isLate = false
  const late = setTimeout(() => {
    isLate = true
    history.stop()
  }, ENTRY_MS)
  try {
    for await (const entry of history) {
      entries.push(entry)
      late.refresh()
    }
  } finally {
    clearTimeout(late)
  }
  if (isLate) throw unavailable(`the next entry of the bucket has not arrived for ${ENTRY_MS} ms`)
  return entries
}
