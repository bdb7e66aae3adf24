/**
 * The stored state of a batch, and the form in which clients see it.
 */
export type BatchState =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled'

export interface BatchFault {
  readonly code: string
  readonly message: string
  /** Starting at 1; null: the fault concerns no single line. */
  readonly line: number | null
  readonly param: string | null
}

export interface BatchUsage {
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  readonly reasoningTokens: number
}

export interface BatchRecord {
  readonly id: string
  readonly tenant: string
  /** Null: no key was required when the batch was created. */
  readonly keyId: string | null
  readonly endpoint: string
  readonly inputFileId: string
  readonly completionWindow: string
  readonly metadata: Readonly<Record<string, string>> | null
  readonly state: BatchState
  readonly faults: readonly BatchFault[]
  readonly model: string | null
  /** Files that are written while the batch runs. A client sees them at the end if they are not empty. */
  readonly outputFileId: string
  readonly errorFileId: string
  readonly hasOutput: boolean
  readonly hasErrors: boolean
  readonly outputKeepSeconds: number | null
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly usage: BatchUsage
  /** The times at which the batch entered each state, in seconds since 1970. */
  readonly createdSeconds: number
  readonly expiresSeconds: number
  readonly reached: Readonly<Partial<Record<BatchState, number>>>
}

export const NO_USAGE: BatchUsage = {
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
}

const ENDS: ReadonlySet<BatchState> = new Set(['failed', 'completed', 'expired', 'cancelled'])

export function hasEnded({ state }: Pick<BatchRecord, 'state'>): boolean {
  return ENDS.has(state)
}

export function batchObject(batch: BatchRecord): Record<string, unknown> {
  const { reached, faults, usage } = batch
  const at = (state: BatchState): number | null => reached[state] ?? null
  const isOver = hasEnded(batch)
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    model: batch.model,
    errors: faults.length === 0 ? null : { object: 'list', data: faults },
    input_file_id: batch.inputFileId,
    completion_window: batch.completionWindow,
    status: batch.state,
    output_file_id: isOver && batch.hasOutput ? batch.outputFileId : null,
    error_file_id: isOver && batch.hasErrors ? batch.errorFileId : null,
    created_at: batch.createdSeconds,
    in_progress_at: at('in_progress'),
    expires_at: batch.expiresSeconds,
    finalizing_at: at('finalizing'),
    completed_at: at('completed'),
    failed_at: at('failed'),
    expired_at: at('expired'),
    cancelling_at: at('cancelling'),
    cancelled_at: at('cancelled'),
    request_counts: { total: batch.total, completed: batch.completed, failed: batch.failed },
    usage: {
      input_tokens: usage.inputTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens },
      output_tokens: usage.outputTokens,
      output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
      total_tokens: usage.inputTokens + usage.outputTokens,
    },
    metadata: batch.metadata,
  }
}
