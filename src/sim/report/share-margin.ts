/**
 * How sure a share of good requests is: half the width of its interval of 95 %.
 *
 * Seeds alone do not say it: on a trace from a file they draw next to nothing, and ten runs without a miss are no proof
 * that there is none. So the width is the largest of three: over the seeds; over the parts of each run, which says what
 * other hours of the same kind of traffic would bring (batch means); and 3 divided by the requests, the most that could go
 * wrong unseen.
 */
import { meanWithMargin } from './paired-difference.ts'

export interface ShareRun {
  readonly requests: number
  readonly share: number
  /** Shares of consecutive parts of the run, of about equally many requests. */
  readonly parts: readonly number[]
}

/** `areDrawn`: every run has requests of its own; else all have those of one trace. */
export function shareMargin(runs: readonly ShareRun[], areDrawn: boolean): number {
  const overSeeds = finite(meanWithMargin(runs.map(({ share }) => share)).margin)
  const ofParts = runs.map(({ parts }) => finite(meanWithMargin(parts).margin))
  const mean = ofParts.reduce((sum, margin) => sum + margin, 0) / Math.max(1, runs.length)
  const counted = areDrawn ? runs.length : 1
  const requests = runs.reduce((sum, run) => sum + run.requests, 0) / Math.max(1, runs.length)
  const unseen = 3 / Math.max(1, requests * counted)
  return Math.min(1, Math.max(overSeeds, mean / Math.sqrt(Math.max(1, counted)), unseen))
}

/** Fewer than two values say nothing. */
function finite(margin: number): number {
  return Number.isFinite(margin) ? margin : 0
}
