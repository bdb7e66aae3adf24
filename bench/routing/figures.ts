/**
 * The figures of a run, and how two policies are compared by them.
 */
import { BOUND, isRepeated, JUDGED } from './policies.ts'

export const METRICS = ['ttft', 'p99', 'e2e', 'good'] as const
export type Metric = (typeof METRICS)[number]
export type CellFigures = Readonly<Record<Metric | 'reuse' | 'completed', number>>

/** By policy, one for each seed. */
export type LoadCells = Readonly<Record<string, readonly CellFigures[]>>
/** By load. */
export type Cells = Readonly<Record<string, LoadCells>>

export const TITLES: Readonly<Record<Metric, string>> = {
  ttft: 'mean TTFT ms',
  p99: 'p99 TTFT ms',
  e2e: 'mean E2E ms',
  good: 'good %',
}
/** A larger loss against the best counts as worse; smaller differences are within the noise. */
export const WORSE = 0.01
export const BETTER = 0.1

export function meanOf(runs: readonly CellFigures[], metric: Metric): number {
  return runs.reduce((sum, figures) => sum + figures[metric], 0) / runs.length
}

/** The policies with which the judged one is compared. */
export const othersOf = (names: readonly string[]): string[] =>
  names.filter((name) => name !== JUDGED && name !== BOUND && !isRepeated(name))

/** Logarithm of how much better the runs are than the others; above 0: better. */
export function gainOn(
  others: readonly CellFigures[],
  runs: readonly CellFigures[],
  metric: Metric,
): number {
  // Two per cent are added, so that shares of nearly nothing do not count as large differences.
  const least = metric === 'good' ? 0.02 : 0
  const ratio = (meanOf(runs, metric) + least) / (meanOf(others, metric) + least)
  return metric === 'good' ? Math.log(ratio) : -Math.log(ratio)
}

export const isWorse = (gain: number, times = 1): boolean => gain < Math.log(1 - times * WORSE)
export const isBetter = (gain: number): boolean => gain >= Math.log(1 + BETTER)
