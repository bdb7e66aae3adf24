/**
 * How many blocks admission keeps free for the output of running sequences, so that they are not preempted too often.
 *
 * `none`: a sequence is admitted if its current tokens fit. `whole`: with its maximum output, and nothing is ever
 * preempted. `estimate`: a share of the outstanding output; the share falls with every decode step, rises to what was
 * needed after a preemption, and is reset when the engine is idle. (SGLang's policy.)
 */
import type { SimSequence } from './sim-sequence.ts'

export type OutputReserveConfig =
  | { readonly kind: 'none' | 'whole' }
  | {
      readonly kind: 'estimate'
      /** Initial share of the outstanding output. */
      readonly initial: number
      readonly least: number
      /** Decrease per step. */
      readonly decay: number
      /** Maximum output counted per request. */
      readonly outputMax: number
    }

/** Estimated remaining steps of preempted sequences, per sequence. */
const RETRACT_STEPS = 20

export class OutputReserve<Owner> {
  readonly #reserve: OutputReserveConfig
  readonly #blockTokens: number
  #share: number

  constructor(reserve: OutputReserveConfig, blockTokens: number) {
    this.#reserve = reserve
    this.#blockTokens = blockTokens
    this.#share = reserve.kind === 'estimate' ? reserve.initial : 0
  }

  /** Number of blocks that must be available to admit this sequence. */
  footprint(sequence: SimSequence<Owner>, isAlone: boolean): number {
    const reserve = this.#reserve
    if (reserve.kind === 'whole') return this.#blocksAtEnd(sequence)
    if (reserve.kind !== 'estimate' || isAlone) return this.#blocksFor(sequence.length)
    const output = Math.min(outstanding(sequence), reserve.outputMax)
    return Math.min(this.#blocksFor(sequence.length + output), this.#blocksAtEnd(sequence))
  }

  /** Number of blocks that running sequences may still need. */
  reserved(running: readonly SimSequence<Owner>[]): number {
    const reserve = this.#reserve
    let blocks = 0
    if (reserve.kind === 'whole')
      for (const sequence of running) blocks += this.#blocksAtEnd(sequence) - sequence.blocks.length
    if (reserve.kind !== 'estimate') return blocks
    let tokens = 0
    for (const sequence of running) {
      tokens += Math.max(0, sequence.length - sequence.blocks.length * this.#blockTokens)
      tokens += Math.min(outstanding(sequence), reserve.outputMax) * this.#share
    }
    return this.#blocksFor(tokens)
  }

  afterStep(running: readonly SimSequence<Owner>[], hasPreempted: boolean): void {
    const reserve = this.#reserve
    if (reserve.kind !== 'estimate') return
    if (running.length === 0) this.#share = reserve.initial
    else if (hasPreempted) this.#share = shareNeeded(running)
    else this.#share = Math.max(reserve.least, this.#share - reserve.decay)
  }

  #blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.#blockTokens)
  }

  /** The KV of the last token is never computed. */
  #blocksAtEnd(sequence: SimSequence<Owner>): number {
    return this.#blocksFor(sequence.promptTokens + Math.max(0, sequence.outputTokens - 1))
  }
}

function outstanding(sequence: SimSequence<unknown>): number {
  return sequence.outputTokens - sequence.generatedTokens
}

function shareNeeded(running: readonly SimSequence<unknown>[]): number {
  let [generated, wanted] = [0, 0]
  for (const sequence of running) {
    generated += sequence.generatedTokens + RETRACT_STEPS
    wanted += sequence.outputTokens
  }
  return Math.min(1, generated / Math.max(1, wanted))
}
