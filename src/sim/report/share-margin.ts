/**
 * The uncertainty of a share of good requests: half the width of its 95 % interval.
 *
 * Seeds alone are not sufficient: with a trace from a file they draw next to nothing, and ten runs without a miss do
 * not prove that there is none. The width is the largest of three: over the seeds; over the parts of each run, which
 * estimates other hours of the same traffic (batch means); and 3 divided by the number of requests, the most that
 * could have gone unseen (rule of three).
 */
import { meanWithMargin } from './paired-difference.ts'

export interface ShareRun {
  readonly requests: number
  readonly share: number
  /** Shares of consecutive parts of the run, of about equally many requests. */
  readonly parts: readonly number[]
}

/** `areDrawn`: every run has different requests; otherwise all have those of one trace. */
export function shareMargin(runs: readonly ShareRun[], areDrawn: boolean): number {
  const overSeeds = finite(meanWithMargin(runs.map(({ share }) => share)).margin)
  const ofParts = runs.map(({ parts }) => finite(meanWithMargin(parts).margin))
  const mean = ofParts.reduce((sum, margin) => sum + margin, 0) / Math.max(1, runs.length)
  const counted = areDrawn ? runs.length : 1
  const requests = runs.reduce((sum, run) => sum + run.requests, 0) / Math.max(1, runs.length)
  const unseen = 3 / Math.max(1, requests * counted)
  return Math.min(1, Math.max(overSeeds, mean / Math.sqrt(Math.max(1, counted)), unseen))
}

/** With fewer than two values nothing is known. */
function finite(margin: number): number {
  return Number.isFinite(margin) ? margin : 0
}
