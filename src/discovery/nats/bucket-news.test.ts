import { describe, expect, it } from 'vitest'
import type { KvWatchEntry } from '@nats-io/kv'
import { workerIdOf } from '../../base/index.ts'
import { sampleCard } from '../../testing/discovery-kit.ts'
import { encodeCardFile } from '../card-file.ts'
import { bucketNews } from './bucket-news.ts'

describe('bucketNews', () => {
  const WORKERS = 100
  const reads: string[] = []
  const entryOf = (id: number): KvWatchEntry => {
    const card = { ...sampleCard(id), startedAtEpochMs: (id * 37) % WORKERS }
    const entry: Partial<KvWatchEntry> = {
      key: workerIdOf(id),
      revision: id,
      operation: 'PUT',
      string: () => {
        reads.push(workerIdOf(id))
        return encodeCardFile({ card, machine: 'here' })
      },
    }
    return entry as KvWatchEntry
  }
  const content = Array.from({ length: WORKERS }, (_, i) => entryOf(i + 1))

  it('a new bucket - is ordered by the start of the workers, and each card is read once', () => {
    reads.length = 0
    const keys = bucketNews(content, new Map()).map(({ key }) => Number(key))
    expect(keys.map((id) => (id * 37) % WORKERS)).toEqual(content.map((_, i) => i))
    expect(reads.toSorted()).toEqual(content.map(({ key }) => key).toSorted())
  })

  it('a bucket that is read again - only the cards that have changed are read', () => {
    reads.length = 0
    const known = new Map(content.map(({ key, revision }) => [workerIdOf(Number(key)), revision]))
    known.set(workerIdOf(7), 6)
    known.delete(workerIdOf(9))
    expect(
      bucketNews(content, known)
        .map(({ key }) => key)
        .toSorted(),
    ).toEqual(['7', '9'])
    expect(reads.toSorted()).toEqual(['7', '9'])
  })
})
