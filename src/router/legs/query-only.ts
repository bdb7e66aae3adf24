/** The reply to a query-only request ("where would this run"): worker ids; nothing was booked, bound or sent. */
import { finishChunk } from '../../request/index.ts'
import type { Chunk, GenerateRequest, RoutedEvent } from '../../request/index.ts'
import type { Selection } from '../decide/selection.ts'

/** `engineData.worker_id` contains the worker of each phase, in the format of Dynamo's clients. */
export function answerQuery(selections: readonly Selection[], request: GenerateRequest): Chunk {
  const ids: Record<string, string | number> = {}
  for (const { phase, workerId, dpRank } of selections) {
    if (phase !== 'decode') {
      ids['prefill_worker_id'] = workerId
      ids['prefill_dp_rank'] = dpRank
    }
    if (phase !== 'prefill') {
      ids['decode_worker_id'] = workerId
      ids['decode_dp_rank'] = dpRank
    }
  }
  const engineData = { worker_id: ids, token_ids: [...request.tokenIds] }
  return finishChunk('stop', { engineData })
}

export function routedEventOf(selection: Selection, atMs: number): RoutedEvent {
  const { phase, workerId, dpRank, overlapBlocks, promptBlocks } = selection
  const noTime = { queuedMs: 0, decisionMs: 0, atMs }
  return { kind: 'routed', phase, workerId, dpRank, overlapBlocks, promptBlocks, ...noTime }
}
