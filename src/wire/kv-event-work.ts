/** How much work KV events are, for both ends of a connection: their blocks, and one for each event itself. */
import type { KvEvent, KvEventBatch } from '../kv/index.ts'

export function workOfEvent(event: KvEvent): number {
  return event.kind === 'cleared' ? 1 : 1 + event.hashes.length / 2
}

export function workOfBatch({ events }: KvEventBatch): number {
  let work = 0
  for (const event of events) work += workOfEvent(event)
  return work
}
