/**
 * The result of a decision: a rank with what is needed to book it, or a refusal with a typed error. A decision
 * changes nothing; booking is a separate step that can be undone.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import type { SequenceHashes } from '../../kv/index.ts'
import type { GenerateRequest, Phase, WorkerCard } from '../../request/index.ts'
import type { Turn } from '../load/later-turns.ts'
import type { DecisionRecord } from './decision-record.ts'
import type { Pin } from './pin.ts'

export interface SelectionQuery {
  readonly request: GenerateRequest
  readonly phase: Phase
  /** The worker that the request's session is bound to: required, or only preferred if `soft`. */
  readonly affinity?: { readonly target: Pin; readonly soft: boolean } | null
  readonly queuedMs: number
  /** Of a prefill: its decode leg, if something restricts the workers that may run it. */
  readonly next?: SelectionQuery | undefined
  /** The prefill router's reason, stored in the record. */
  readonly note?: string | undefined
}

/** A decode worker continues it. */
export function needsDecode({ phase, request }: SelectionQuery): boolean {
  return phase === 'prefill' && request.kind !== 'embed'
}

export interface Selection {
  readonly kind: 'selected'
  readonly slot: number
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly card: WorkerCard
  readonly phase: Phase
  /** Leading blocks of the prompt that are cached on the rank: on the device, in host memory or on disk. */
  readonly overlapBlocks: number
  /** Prompt tokens that need not be computed: the cached tokens of each tier times the tier's weight. */
  readonly cachedTokens: number
  readonly promptTokens: number
  readonly promptBlocks: number
  /** Prompt tokens that the worker has to compute. */
  readonly effectivePrefillTokens: number
  /** Blocks in use on the rank once this request runs there. */
  readonly potentialDecodeBlocks: number
  readonly cost: number
  readonly hashes: SequenceHashes | null
  /** The request's turn in its session; null if turns are not tracked. */
  readonly turn: Turn | null
  /** See `SelectionQuery`. */
  readonly next?: SelectionQuery | undefined
  readonly trackPrefill: boolean
  readonly assumeKvReuse: boolean
  /** The token ids are an estimate, not those of the engine's tokenizer. */
  readonly isEstimated: boolean
  /** The reply is not one of tokens, so that its times say nothing about the speed of prompts and steps. */
  readonly isForwarded?: boolean
  /** The leg is the whole request, although its phase is prefill. */
  readonly isEmbedding?: boolean
  /** The reply is forwarded as a whole: its first token cannot be seen. */
  readonly isWhole?: boolean
  readonly expectedOutputTokens: number | null
  /** Predicted time to the first token; null if there is no prompt to compute or nothing is known about the pool yet. */
  readonly predictedTtftMs: number | null
  readonly record: DecisionRecord
}

export interface Refusal {
  readonly kind: 'refused'
  readonly error: BatonError
  /** True if some rank would be eligible except for its load. */
  readonly overloaded: boolean
  readonly record: DecisionRecord
}
