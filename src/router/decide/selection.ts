/**
 * The answer of a decision: a rank with what it takes to book it, or a refusal with a typed error.
 * A decision changes nothing; booking is a second step and can be taken back.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { BlockHashes } from '../../kv/index.ts'
import type { GenerateRequest, Phase, WorkerCard } from '../../request/index.ts'
import type { Turn } from '../load/later-turns.ts'
import type { DecisionRecord } from './decision-record.ts'
import type { Pin } from './pin.ts'

export interface SelectionQuery {
  readonly request: GenerateRequest
  readonly phase: Phase
  /** A session's worker: demanded when hard, preferred when soft. */
  readonly affinity?: { readonly target: Pin; readonly soft: boolean } | null
  readonly queuedMs: number
  /** What the prefill router thought of it; goes into the record. */
  readonly note?: string
}

export interface Selection {
  readonly kind: 'selected'
  readonly slot: number
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly card: WorkerCard
  readonly phase: Phase
  /** Of the prompt that the rank holds, on its device, in its host's memory or on its disk. */
  readonly overlapBlocks: number
  readonly cachedTokens: number
  readonly promptTokens: number
  readonly promptBlocks: number
  /** Prompt tokens that the worker has to compute. */
  readonly effectivePrefillTokens: number
  /** Blocks active on the rank once this request is there. */
  readonly potentialDecodeBlocks: number
  readonly cost: number
  readonly hashes: BlockHashes | null
  /** Where it stands in its session; null: nobody asks. */
  readonly turn: Turn | null
  readonly trackPrefill: boolean
  readonly assumeKvReuse: boolean
  /** The prompt's tokens are not the engine's. */
  readonly isEstimated: boolean
  readonly expectedOutputTokens: number | null
  /** Until the first token; null: it has no prompt to compute, or nothing is known of the pool yet. */
  readonly predictedTtftMs: number | null
  readonly record: DecisionRecord
}

export interface Refusal {
  readonly kind: 'refused'
  readonly error: BatonError
  /** Somebody would be eligible but for the load. */
  readonly overloaded: boolean
  readonly record: DecisionRecord
}
