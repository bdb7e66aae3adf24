/**
 * What a snapshot of the bucket of cards says that is not known yet. The bucket is read again and again, and of a large
 * fleet nearly nothing has changed then, so a card is decoded once, and only if it is new.
 */
import type { KvWatchEntry } from '@nats-io/kv'
import { parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { decodeCardFile, startedMs } from '../card-file.ts'

/** Oldest worker first, so that every frontend learns of them in the same order. `known`: the newest known revisions. */
export function bucketNews(
  content: readonly KvWatchEntry[],
  known: ReadonlyMap<WorkerId, number>,
): readonly KvWatchEntry[] {
  return content
    .filter(({ key, revision }) => {
      const workerId = parseWorkerId(key)
      return workerId !== null && (known.get(workerId) ?? 0) < revision
    })
    .map((entry) => ({ entry, startedMs: startedMsOf(entry) }))
    .toSorted((left, right) => left.startedMs - right.startedMs)
    .map(({ entry }) => entry)
}

function startedMsOf(entry: KvWatchEntry): number {
  try {
    return startedMs(decodeCardFile(entry.string()).card)
  } catch {
    return 0
  }
}
