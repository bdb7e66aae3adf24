/** The amount of work in one step of the scheduler, and its duration. */
import type { SchedulerConfig } from './scheduler-config.ts'
import type { SimSequence } from './sim-sequence.ts'

interface StepWork {
  /** Number of sequences with work. */
  readonly scheduled: number
  /** Those of them that compute prompt tokens. */
  readonly prefills: number
  /** Their prompt tokens up to the end of the step, and before it. */
  readonly promptTokens: number
  readonly prefixTokens: number
  /** Cached tokens of the sequences that start. */
  readonly foundTokens: number
  /** Number of sequences that get a token other than the first one after their own prefill. */
  readonly decodes: number
  readonly contextTokens: number
}

export function measureStep<Owner>(running: readonly SimSequence<Owner>[]): StepWork {
  const work = {
    scheduled: 0,
    prefills: 0,
    promptTokens: 0,
    prefixTokens: 0,
    foundTokens: 0,
    decodes: 0,
    contextTokens: 0,
  }
  for (const sequence of running) {
    if (sequence.stepTokens === 0) continue
    work.scheduled += 1
    if (sequence.stepPromptTokens > 0 && !sequence.kvArrived) {
      work.prefills += 1
      work.promptTokens += sequence.stepPrefixTokens + sequence.stepPromptTokens
      work.prefixTokens += sequence.stepPrefixTokens
      // The first piece begins where the cached prefix ends.
      if (sequence.stepPrefixTokens === sequence.cachedTokens)
        work.foundTokens += sequence.cachedTokens
    }
    const ends = sequence.computedTokens + sequence.stepTokens >= sequence.length
    if (ends && (sequence.generatedTokens > 0 || sequence.kvArrived)) {
      work.decodes += 1
      work.contextTokens += sequence.length
    }
  }
  return work
}

export function durationOf(
  work: StepWork,
  config: SchedulerConfig,
): { readonly prefillMs: number; readonly decodeMs: number } {
  const { timing, prefillSpeedup, decodeSpeedup, blockCount, blockTokens } = config
  const { prefills, promptTokens, prefixTokens, foundTokens, decodes, contextTokens } = work
  const takesPrefill = prefills > 0 && prefillSpeedup !== Infinity
  const takesDecode = decodes > 0 && decodeSpeedup !== Infinity
  const prefillMs = takesPrefill
    ? timing.prefillMs({
        requests: prefills,
        meanPromptTokens: Math.floor(promptTokens / prefills),
        meanPrefixTokens: Math.floor(prefixTokens / prefills),
        foundTokens,
      }) / prefillSpeedup
    : 0
  const capacityTokens = blockCount * blockTokens
  const decodeMs = takesDecode
    ? timing.decodeMs({ requests: decodes, contextTokens, capacityTokens }) / decodeSpeedup
    : 0
  return { prefillMs, decodeMs }
}

/** Rounded to nanoseconds, so that sums do not depend on the order of addition. */
export function endOfStep(startMs: number, prefillMs: number, decodeMs: number): number {
  return startMs + Math.round((prefillMs + decodeMs) * 1e6) / 1e6
}

export function stepEndMs(startMs: number, work: StepWork, config: SchedulerConfig): number {
  const { prefillMs, decodeMs } = durationOf(work, config)
  return endOfStep(startMs, prefillMs, decodeMs)
}
