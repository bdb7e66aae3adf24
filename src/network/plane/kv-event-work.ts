/** How much work a batch of KV events is, for both ends: its blocks and events. */
import type { KvEventBatch } from '../../kv/index.ts'

export function workOf({ events }: KvEventBatch): number {
  let work = events.length
  for (const event of events) if (event.kind !== 'cleared') work += event.hashes.length / 2
  return work
}
