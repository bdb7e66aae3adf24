/**
 * Quiet steps, which only give each running sequence its next token: how many will follow, and when the last of them
 * ends.
 *
 * With this forecast a driver that knows the future (the simulator) needs one timer for many steps. A submit or
 * cancel in the meantime ends the run. The effect of the steps on sequences and blocks is up to the scheduler.
 */
import type { SchedulerConfig } from './scheduler-config.ts'
import type { SimSequence } from './sim-sequence.ts'
import { stepEndMs } from './step-work.ts'

interface QuietOptions<Owner> {
  readonly running: readonly SimSequence<Owner>[]
  readonly config: SchedulerConfig
  /** Free blocks and those that may be evicted. */
  readonly spareBlocks: number
  /** The end of the current step. */
  readonly fromMs: number
  readonly stepsMax: number
}

export interface QuietRun {
  readonly steps: number
  /** The end of the current step, then the end of each quiet one. */
  readonly endsMs: Float64Array
}

/**
 * Number of such steps until one of them allocates or completes a block: apart from the end of a sequence in the last
 * step, nothing else that they do is visible from outside.
 */
export function stepsToChange<Owner>(
  running: readonly SimSequence<Owner>[],
  blockTokens: number,
): number {
  let steps = Infinity
  for (const { computedTokens, blocks, publishedBlocks } of running) {
    const toBlock = blocks.length * blockTokens + 1 - computedTokens
    const toComplete = (publishedBlocks + 1) * blockTokens - computedTokens
    steps = Math.min(steps, toBlock, toComplete)
  }
  return Math.max(1, steps)
}

/** Null: the next step may be of another kind. */
export function forecastQuietSteps<Owner>(options: QuietOptions<Owner>): QuietRun | null {
  const { running, config, spareBlocks, fromMs, stepsMax } = options
  const { offload, speculation, tokenBudget, blockTokens } = config
  if (offload !== null || speculation !== null) return null
  if (running.length === 0 || running.length > tokenBudget) return null
  let steps = stepsMax
  let contextTokens = 0
  for (const sequence of running) {
    const { length, computedTokens, restMs, outputTokens, generatedTokens } = sequence
    // The last token of a prompt is computed as part of the prompt, and a first token is reported at once.
    if (generatedTokens === 0 || restMs > 0 || length - computedTokens !== 1) return null
    steps = Math.min(steps, outputTokens - generatedTokens)
    contextTokens += length
  }
  let newBlocks = 0
  for (const { computedTokens, blocks } of running)
    newBlocks += Math.max(0, Math.ceil((computedTokens + steps) / blockTokens) - blocks.length)
  if (steps < 1 || newBlocks > spareBlocks) return null
  const endsMs = new Float64Array(steps + 1)
  endsMs[0] = fromMs
  for (let step = 1; step <= steps; step++) {
    endsMs[step] = stepEndMs(endsMs[step - 1]!, decodeWork(running.length, contextTokens), config)
    contextTokens += running.length
  }
  return { steps, endsMs }
}

function decodeWork(decodes: number, contextTokens: number): Parameters<typeof stepEndMs>[1] {
  return {
    scheduled: decodes,
    prefills: 0,
    promptTokens: 0,
    prefixTokens: 0,
    foundTokens: 0,
    decodes,
    contextTokens,
  }
}
