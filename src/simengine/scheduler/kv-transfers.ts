/** Sequences whose KV is being transferred from a prefill worker; each may start when it has arrived. */
import type { SchedulerConfig } from './scheduler-config.ts'
import type { SequenceBlocks } from './sequence-blocks.ts'
import type { SimSequence } from './sim-sequence.ts'

/** Tolerance, because `now + (then - now)` need not equal `then` in floating point. */
export const EPSILON_MS = 1e-6

export class KvTransfers<Owner> {
  readonly #config: SchedulerConfig
  readonly #blocks: SequenceBlocks<Owner>
  readonly #sequences: SimSequence<Owner>[] = []

  constructor(config: SchedulerConfig, blocks: SequenceBlocks<Owner>) {
    this.#config = config
    this.#blocks = blocks
  }

  get length(): number {
    return this.#sequences.length
  }

  /** When the next transfer arrives; Infinity: none in progress. */
  get nextMs(): number {
    let nextMs = Infinity
    for (const { notBeforeMs } of this.#sequences) nextMs = Math.min(nextMs, notBeforeMs)
    return nextMs
  }

  begin(sequence: SimSequence<Owner>, nowMs: number): void {
    sequence.notBeforeMs = nowMs + this.#durationMs(sequence)
    sequence.state = 'transferring'
    this.#sequences.push(sequence)
  }

  /** Passes on the sequences that have arrived, in the order in which they began. */
  end(nowMs: number, onArrived: (sequence: SimSequence<Owner>) => void): void {
    const sequences = this.#sequences
    let kept = 0
    for (const sequence of sequences) {
      if (sequence.notBeforeMs > nowMs + EPSILON_MS) sequences[kept++] = sequence
      else onArrived(sequence)
    }
    sequences.length = kept
  }

  remove(sequence: SimSequence<Owner>): void {
    const at = this.#sequences.indexOf(sequence)
    if (at >= 0) this.#sequences.splice(at, 1)
  }

  #durationMs(sequence: SimSequence<Owner>): number {
    const { transfer, blockTokens } = this.#config
    if (transfer === null) return 0
    const cached = transfer.onlyMissing ? this.#blocks.cachedPrefix(sequence) * blockTokens : 0
    return (sequence.promptTokens - cached) * transfer.msPerToken
  }
}
