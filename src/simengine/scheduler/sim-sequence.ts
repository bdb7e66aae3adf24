/**
 * One request inside the simulated scheduler: lengths, hashes and blocks, but no tokens and no text.
 *
 * `owner` is whatever the driver wants to find again when the sequence makes progress.
 */
import { HashChain } from '../blocks/hash-chain.ts'

export interface SimSubmit<Owner> {
  readonly owner: Owner
  readonly promptTokens: number
  /** Sequence hashes of the full blocks of the prompt, (low, high) pairs; empty when nothing may be cached. */
  readonly promptHashes: Uint32Array
  /** How many tokens are generated before the sequence is complete; 0 on a prefill worker. */
  readonly outputTokens: number
  readonly priority?: number
  /** The KV of the prompt comes from elsewhere: nothing is computed but the last token, after the transfer. */
  readonly isTransferred?: boolean
  /** The request rests this long after each of its tokens (a slow request, for tests). */
  readonly restMs?: number
}

export type SimSequenceState = 'transferring' | 'waiting' | 'running' | 'preempted' | 'ended'

export class SimSequence<Owner> {
  readonly owner: Owner
  readonly promptTokens: number
  readonly outputTokens: number
  readonly priority: number
  readonly isTransferred: boolean
  /** The KV of all but the last token has come from a prefill worker and is still held. */
  kvArrived: boolean
  readonly restMs: number
  state: SimSequenceState = 'waiting'
  generatedTokens = 0
  /** Tokens, from the first on, whose KV is there. */
  computedTokens = 0
  /** Prompt tokens found in the prefix cache at the latest admission. */
  cachedTokens = 0
  admissions = 0
  /** Not before this moment: end of the transfer, or of the rest. */
  notBeforeMs = 0
  readonly blocks: number[] = []
  /** How many of `blocks` have been published under their hash. */
  publishedBlocks = 0
  /** (low, high) of every full block so far; grows with the generated ones. */
  readonly hashes: HashChain

  /** What the current step does for this sequence. */
  stepTokens = 0
  stepPromptTokens = 0
  stepPrefixTokens = 0
  /** Guessed behind the token that the step gives. */
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
