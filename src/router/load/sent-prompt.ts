/** The predicted times of a prompt that is sent to a rank, from the rates and the work there. */
import type { RankBacklog, SentPrompt } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import { restOfStep, spreadOfStep } from '../rates/step-phase.ts'

/** `tokens`: those that are not cached there. */
export function sentPromptOf(
  table: RankTable,
  rates: RankRates,
  backlog: RankBacklog,
  slot: number,
  tokens: number,
  nowMs: number,
): SentPrompt {
  const running = backlog.runningOn(slot)
  const contexts = backlog.contextTokens[slot] as number
  // Prompts that wait together share the fixed cost of a prefill step.
  const startMs = (backlog.open[slot] as number) > 0 ? 0 : rates.ttftMs(slot, 0)
  const stepMs = running <= 0 ? 0 : rates.stepMsAt(slot, running, contexts)
  const sinceMs = nowMs - backlog.phaseMs(slot)
  return {
    ms: startMs + rates.perTokenMs(slot) * tokens,
    isLong: tokens > (table.maxBatchedTokens[slot] as number),
    stepMs,
    restMs: restOfStep(sinceMs, stepMs),
    spreadMs: spreadOfStep(sinceMs, stepMs),
  }
}

/** Fixed time of the step that computes the prompts waiting on a rank, after the one that has just ended. */
export function nextStartMsOf(rates: RankRates, backlog: RankBacklog, slot: number): number {
  const decoding = backlog.runningOn(slot) + 1
  const contexts = backlog.contextTokens[slot] as number
  return rates.ttftMs(slot, 0) + rates.stepMsAt(slot, decoding, contexts)
}
