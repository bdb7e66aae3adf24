/** The blocks of one rank in parts, while its engine works on; see `KvSnapshot`. */
import type { KvEvent } from '../../kv/index.ts'

export interface RankSnapshot {
  readonly isDone: boolean
  /** Too much has happened meanwhile: it has to begin anew. */
  readonly isStale: boolean
  /** About `sizeMax` blocks and events, maybe none although there are more. */
  take(sizeMax: number): KvEvent[]
  /** What to send now of events that have just happened; `take` returns the rest. */
  follow(events: readonly KvEvent[]): readonly KvEvent[]
  close(): void
}
