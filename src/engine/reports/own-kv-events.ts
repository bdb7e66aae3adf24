/**
 * Reads a list of KV events of an engine: the sound ones, as the worker's own. One that is wrong costs only itself.
 *
 * The list is counted before it is walked: it may say any length, and may name one large event a thousand times, and
 * no stream of the worker continues until it has been read.
 */
import { BatonError } from '../../base/index.ts'
import type { KvEvent } from '../../kv/index.ts'
import { ownKvEvent } from './own-report.ts'

/** Words of 4 bytes in one list: as many as there are in the largest frame of KV events. */
export const EVENT_WORDS_MAX = 2 ** 24
/** Of an event, besides its hashes. */
export const EVENT_HEAD_WORDS = 8

export function ownKvEvents(given: unknown, onFault: (fault: string) => void): KvEvent[] {
  const own: KvEvent[] = []
  try {
    readInto(own, given, onFault)
  } catch (thrown) {
    onFault(`the list cannot be read: ${BatonError.from(thrown).message}`)
  }
  return own
}

function readInto(own: KvEvent[], given: unknown, onFault: (fault: string) => void): void {
  if (!Array.isArray(given)) return onFault('not a list')
  const { length } = given as readonly KvEvent[]
  let left = EVENT_WORDS_MAX - length * EVENT_HEAD_WORDS
  if (!(left >= 0)) return onFault(tooMany())
  for (let i = 0; i < length; i++) {
    const event = ownKvEvent(given[i] as KvEvent)
    if (typeof event === 'string') {
      onFault(event)
      continue
    }
    left -= hashWordsOf(event)
    if (left < 0) return onFault(tooMany())
    own.push(event)
  }
}

function hashWordsOf(event: KvEvent): number {
  if (event.kind === 'cleared') return 0
  return event.hashes.length + (event.kind === 'stored' ? event.localHashes.length : 0)
}

function tooMany(): string {
  return `more than ${EVENT_WORDS_MAX} words of 4 bytes in one list (${EVENT_HEAD_WORDS} per event and its hashes); the rest is ignored: report them in several lists`
}
