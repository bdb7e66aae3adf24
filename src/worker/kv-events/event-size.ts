/** How large KV events are in a frame. */
import type { KvEvent } from '../../kv/index.ts'

/** At least the u32 that an event takes in a frame. */
export function wordsOf(event: KvEvent): number {
  const head = 8
  if (event.kind === 'cleared') return head
  const locals = event.kind === 'stored' ? event.localHashes.length : 0
  return head + event.hashes.length + locals
}
