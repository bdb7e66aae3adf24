/**
 * One request in the simulated scheduler: lengths, hashes and blocks, but no tokens and no text.
 *
 * `owner` is an arbitrary value by which the driver finds its request when the sequence makes progress.
 */
import { HashChain } from '../blocks/hash-chain.ts'

export interface SimSubmit<Owner> {
  readonly owner: Owner
  readonly promptTokens: number
  /** Sequence hashes of the full blocks of the prompt, (low, high) pairs; empty if nothing may be cached. */
  readonly promptHashes: Uint32Array
  /** Number of tokens to generate; 0 on a prefill worker. */
  readonly outputTokens: number
  readonly priority?: number
  /** The KV of the prompt is transferred: only the last token is computed, after the transfer. */
  readonly isTransferred?: boolean
  /** The request pauses this long after each of its tokens (a slow request, for tests). */
  readonly restMs?: number
}

export type SimSequenceState = 'transferring' | 'waiting' | 'running' | 'preempted' | 'ended'

export class SimSequence<Owner> {
  readonly owner: Owner
  readonly promptTokens: number
  readonly outputTokens: number
  readonly priority: number
  readonly isTransferred: boolean
  /** The KV of all but the last token has arrived from a prefill worker and is still held. */
  kvArrived: boolean
  readonly restMs: number
  state: SimSequenceState = 'waiting'
  generatedTokens = 0
  /** Number of leading tokens whose KV is available. */
  computedTokens = 0
  /** Prompt tokens found in the prefix cache at the latest admission. */
  cachedTokens = 0
  admissions = 0
  /** May not run before this time: end of a transfer or pause. */
  notBeforeMs = 0
  readonly blocks: number[] = []
  /** Number of `blocks` that have been published under their hash. */
  publishedBlocks = 0
  /** (low, high) of every full block so far; grows with the output. */
  readonly hashes: HashChain

  /** What the current step does for this sequence. */
  stepTokens = 0
  stepPromptTokens = 0
  stepPrefixTokens = 0
  /** Number of drafts after the token of this step. */
  stepDrafts = 0

  constructor(submit: SimSubmit<Owner>) {
    this.owner = submit.owner
    this.promptTokens = submit.promptTokens
    this.outputTokens = submit.outputTokens
    this.priority = submit.priority ?? 0
    this.isTransferred = submit.isTransferred ?? false
    this.kvArrived = this.isTransferred
    this.restMs = submit.restMs ?? 0
    this.hashes = new HashChain(submit.promptHashes)
  }

  /** Prompt and generated tokens. */
  get length(): number {
    return this.promptTokens + this.generatedTokens
  }

  get isComplete(): boolean {
    return this.generatedTokens >= this.outputTokens
  }

  clearStep(): void {
    this.stepTokens = 0
    this.stepPromptTokens = 0
    this.stepPrefixTokens = 0
    this.stepDrafts = 0
  }
}
