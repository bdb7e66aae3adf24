/**
 * The result of a plan as a table and a sentence.
 */
import type { FleetTrial, HtmlSection, LabRun } from '../../sim/index.ts'

/** A fleet that was tried, with what it reached. */
export interface MeasuredTrial extends FleetTrial {
  readonly name: string
  /** One per seed. */
  readonly runs: readonly LabRun[]
  /** Mean share of good requests, and half the width of its 95 % interval. */
  readonly good: number
  readonly margin: number
}

/** A share that grows by less than this with the number of workers does not depend on it. */
const HARDLY = 0.005
/** A fleet that costs this much more and is not better shows that workers are not what is missing. */
const LARGER = 1.5

export function trialsOf(trials: readonly MeasuredTrial[], goal: number): HtmlSection {
  const sorted = trials.toSorted((a, b) => a.cost - b.cost)
  return {
    title: 'Fleets that were tried, cheapest first',
    columns: ['', 'cost', 'good %', '± 95 %', 'TTFT p99 ms', 'ITL mean ms', 'utilisation %', ''],
    rows: sorted.map((trial) => {
      const { name, runs, good, margin, cost, meets } = trial
      return [
        name,
        cost.toFixed(2),
        (100 * good).toFixed(2),
        (100 * margin).toFixed(2),
        meanOf(runs, ({ report }) => report.ttftMs.p99).toFixed(0),
        meanOf(runs, ({ report }) => report.itlMs.mean).toFixed(2),
        (100 * meanOf(runs, ({ report }) => busyOf(report.workers))).toFixed(0),
        meets ? (good - margin >= goal ? 'meets' : 'meets, narrowly') : 'falls short',
      ]
    }),
  }
}

export function verdictOf(
  trials: readonly MeasuredTrial[],
  best: MeasuredTrial | null,
  goal: number,
): string {
  if (best === null) return `no fleet within the limits meets the goals: ${adviceOf(trials)}`
  const { name, cost, good, margin } = best
  const sure =
    good - margin >= goal
      ? 'the whole confidence interval meets the goal'
      : 'the confidence interval reaches below the goal: use more requests, or more --seeds of a workload'
  return `${name}, cost ${cost}: ${percent(good)} ± ${percent(margin)} % good; ${sure}`
}

/** What to change, judged by how much the largest fleets gained over smaller ones. */
function adviceOf(trials: readonly MeasuredTrial[]): string {
  const nearest = trials.toSorted((a, b) => b.good - a.good || a.cost - b.cost)[0]!
  const { report } = nearest.runs[0]!
  const reached = `${nearest.name} came nearest with ${percent(nearest.good)} % good (TTFT p99 ${report.ttftMs.p99.toFixed(0)} ms, ITL mean ${report.itlMs.mean.toFixed(2)} ms)`
  const smaller = trials.filter(({ cost }) => 2 * cost <= nearest.cost + 1)
  const before = Math.max(0, ...smaller.map(({ good }) => good))
  const isLarger = ({ cost }: MeasuredTrial): boolean => cost >= LARGER * nearest.cost
  const hasGainedLittle = smaller.length > 0 && nearest.good - before < HARDLY
  return hasGainedLittle || trials.some(isLarger)
    ? `${reached}, and more workers hardly help: relax --ttft, --tpot or --good, or use faster workers`
    : `${reached}: raise --max, or relax --ttft, --tpot or --good`
}

function meanOf(runs: readonly LabRun[], pick: (run: LabRun) => number): number {
  return runs.reduce((sum, run) => sum + pick(run), 0) / runs.length
}

function busyOf(workers: LabRun['report']['workers']): number {
  const sum = workers.reduce((busy, { utilisation }) => busy + utilisation, 0)
  return sum / Math.max(1, workers.length)
}

function percent(share: number): string {
  return (100 * share).toFixed(2)
}
