/**
 * The matrix: for each load and metric the result of every policy, and the distance of the judged one from the best
 * other.
 */
import { meanWithMargin } from '../../src/sim/index.ts'
import type { CellFigures, Metric } from './cell.ts'
import { JUDGED } from './policies.ts'

/** By load, by policy, one for each seed. */
export type Cells = Readonly<Record<string, Readonly<Record<string, readonly CellFigures[]>>>>

const METRICS: readonly Metric[] = ['ttft', 'p99', 'e2e', 'good']
const TITLES: Readonly<Record<Metric, string>> = {
  ttft: 'mean TTFT ms',
  p99: 'p99 TTFT ms',
  e2e: 'mean E2E ms',
  good: 'good %',
}
/** A larger loss against the best counts as worse; smaller differences are within the noise. */
const WORSE = 0.01
const BETTER = 0.1

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length
const of = (runs: readonly CellFigures[], metric: Metric): number =>
  mean(runs.map((figures) => figures[metric]))

interface Verdict {
  readonly best: string
  /** Above 0: better than the best other. */
  readonly gain: number
  readonly margin: number
}

/** Paired over seeds, as a share of the best other's mean. */
function judge(policies: Cells[string], metric: Metric): Verdict | null {
  const judged = policies[JUDGED]
  const others = Object.keys(policies).filter((name) => name !== JUDGED)
  if (judged === undefined || others.length === 0) return null
  const sign = metric === 'good' ? 1 : -1
  const best = others.reduce((one, other) =>
    sign * of(policies[other]!, metric) > sign * of(policies[one]!, metric) ? other : one,
  )
  const base = of(policies[best]!, metric)
  const gains = judged.map(
    (run, seed) => (sign * (run[metric] - policies[best]![seed]![metric])) / base,
  )
  const { mean: gain, margin } = meanWithMargin(gains)
  return { best, gain, margin }
}

export function formatMatrix(cells: Cells): string {
  const names = [...new Set(Object.values(cells).flatMap((policies) => Object.keys(policies)))]
  const counts = { worse: 0, surelyWorse: 0, better: 0, all: 0 }
  const sections = METRICS.map((metric) => {
    const rows = Object.entries(cells).map(([load, policies]) => {
      const verdict = judge(policies, metric)
      if (verdict !== null) {
        counts.all++
        if (verdict.gain < -WORSE) counts.worse++
        if (verdict.gain + verdict.margin < -WORSE) counts.surelyWorse++
        if (verdict.gain >= BETTER) counts.better++
      }
      const figures = names.map((name) => {
        const runs = policies[name]
        return runs === undefined ? '' : format(metric, of(runs, metric))
      })
      return `| ${[load, ...figures, verdict === null ? '' : words(verdict)].join(' | ')} |`
    })
    const head = ['load, workers', ...names, 'gain on the best other'].join(' | ')
    return [
      `### ${TITLES[metric]}`,
      '',
      `| ${head} |`,
      `|${'---|'.repeat(names.length + 2)}`,
      ...rows,
    ].join('\n')
  })
  const { all, worse, surelyWorse, better } = counts
  const summary = `${all} figures: ${worse} more than 1 % worse than the best other (${surelyWorse} also at the near end of its interval), ${better} at least 10 % better.`
  return [summary, ...sections].join('\n\n')
}

/**
 * For many random loads: the judged policy against every other and against the best other of each load, as the mean of
 * logarithms over the loads with its 95 % interval, and how often it is worse or better.
 */
export function formatSummary(cells: Cells): string {
  const loads = Object.values(cells).filter((policies) => policies[JUDGED] !== undefined)
  const others = [...new Set(loads.flatMap(Object.keys))].filter((name) => name !== JUDGED)
  const gain = (policies: Cells[string], name: string, metric: Metric): number => {
    const sign = metric === 'good' ? 1 : -1
    // Two per cent are added, so that shares of nearly nothing do not count as large differences.
    const least = metric === 'good' ? 0.02 : 0
    const ratio = (of(policies[JUDGED]!, metric) + least) / (of(policies[name]!, metric) + least)
    return sign * Math.log(ratio)
  }
  const rows = METRICS.map((metric) => {
    const best = loads.map((policies) =>
      Math.min(...others.map((name) => gain(policies, name, metric))),
    )
    const columns = [best, ...others.map((name) => loads.map((load) => gain(load, name, metric)))]
    const shares = [
      best.filter((one) => one < Math.log(1 - WORSE)),
      best.filter((one) => one < Math.log(1 - 10 * WORSE)),
      best.filter((one) => one >= Math.log(1 + BETTER)),
    ].map(({ length }) => `${((100 * length) / loads.length).toFixed(0)} %`)
    const means = columns.map((values) => {
      const { mean: middle, margin } = meanWithMargin(values)
      return `${middle > 0 ? '+' : ''}${(100 * middle).toFixed(1)} ± ${(100 * margin).toFixed(1)} %`
    })
    return `| ${[TITLES[metric], ...means, ...shares].join(' | ')} |`
  })
  const head = [
    `${loads.length} loads`,
    'gain on the best other',
    ...others.map((name) => `on ${name}`),
    '> 1 % worse than the best',
    '> 10 % worse',
    '≥ 10 % better',
  ]
  return [`| ${head.join(' | ')} |`, `|${'---|'.repeat(head.length)}`, ...rows].join('\n')
}

function format(metric: Metric, value: number): string {
  if (metric === 'good') return (100 * value).toFixed(1)
  return value >= 1000 ? value.toFixed(0) : value.toFixed(1)
}

function words({ best, gain, margin }: Verdict): string {
  const text = `${gain > 0 ? '+' : ''}${(100 * gain).toFixed(1)} ± ${(100 * margin).toFixed(1)} % (${best})`
  return gain < -WORSE ? `**${text}**` : text
}
