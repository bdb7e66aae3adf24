/** Counts what became of the KV that decode legs at a server were to use. */
import { isRecord } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import { duringHandOver, isOfHandOver } from '../../request/index.ts'
import type { Chunk } from '../../request/index.ts'

export class HandOverCounts {
  moved = 0
  notMoved = 0
  /** The server answered with an error before its first token. */
  failed = 0

  ended({ engineData }: Pick<Chunk, 'engineData'>): void {
    const moved = isRecord(engineData) ? engineData['kv_moved'] : undefined
    if (moved === true) this.moved += 1
    if (moved === false) this.notMoved += 1
  }

  /** The error of a leg without a token, for the log. */
  failure(error: BatonError): BatonError {
    const told = duringHandOver(error)
    if (isOfHandOver(told)) this.failed += 1
    return told
  }
}
