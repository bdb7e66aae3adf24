/**
 * The matrix: for each load and metric the result of every policy, and the distance of the judged one from the best
 * other.
 */
import { meanWithMargin } from '../../src/sim/index.ts'
import {
  BETTER,
  gainOn,
  isBetter,
  isWorse,
  meanOf,
  METRICS,
  othersOf,
  TITLES,
  WORSE,
} from './figures.ts'
import type { Cells, LoadCells, Metric } from './figures.ts'
import { BOUND, isRepeated, JUDGED } from './policies.ts'

interface Verdict {
  readonly best: string
  /** Above 0: better than the best other. */
  readonly gain: number
  readonly margin: number
}

/** Paired over seeds, as a share of the best other's mean. */
function judge(policies: LoadCells, metric: Metric, name = JUDGED): Verdict | null {
  const judged = policies[name]
  const others = othersOf(Object.keys(policies))
  if (judged === undefined || others.length === 0) return null
  const sign = metric === 'good' ? 1 : -1
  const best = others.reduce((one, other) =>
    sign * meanOf(policies[other]!, metric) > sign * meanOf(policies[one]!, metric) ? other : one,
  )
  const base = meanOf(policies[best]!, metric)
  const gains = judged.map(
    (run, seed) => (sign * (run[metric] - policies[best]![seed]![metric])) / base,
  )
  const { mean: gain, margin } = meanWithMargin(gains)
  return { best, gain, margin }
}

export function formatMatrix(cells: Cells): string {
  const names = [
    ...new Set(Object.values(cells).flatMap((policies) => Object.keys(policies))),
  ].filter((name) => !isRepeated(name))
  const counts = { worse: 0, surelyWorse: 0, better: 0, impossible: 0, all: 0 }
  const sections = METRICS.map((metric) => {
    const rows = Object.entries(cells).map(([load, policies]) => {
      const verdict = judge(policies, metric)
      if (verdict !== null) {
        counts.all++
        if (verdict.gain < -WORSE) counts.worse++
        if (verdict.gain + verdict.margin < -WORSE) counts.surelyWorse++
        if (verdict.gain >= BETTER) counts.better++
        if ((judge(policies, metric, BOUND)?.gain ?? BETTER) < BETTER) counts.impossible++
      }
      const figures = names.map((name) => {
        const runs = policies[name]
        return runs === undefined ? '' : format(metric, meanOf(runs, metric))
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
  const { all, worse, surelyWorse, better, impossible } = counts
  const summary = `${all} figures: ${worse} more than 1 % worse than the best other (${surelyWorse} also at the near end of its interval), ${better} at least 10 % better${impossible === 0 ? '' : `, which is impossible for ${impossible}`}.`
  return [summary, ...sections].join('\n\n')
}

/**
 * For many random loads: the judged policy against every other and against the best other of each load, as the mean of
 * logarithms over the loads with its 95 % interval, and how often it is worse or better.
 */
export function formatSummary(cells: Cells): string {
  const loads = Object.values(cells).filter((policies) => policies[JUDGED] !== undefined)
  const names = [...new Set(loads.flatMap(Object.keys))]
  const others = othersOf(names)
  const hasBound = names.includes(BOUND)
  const rows = METRICS.map((metric) => {
    const gain = (load: LoadCells, other: string, name = JUDGED): number =>
      gainOn(load[other]!, load[name]!, metric)
    const onBest = (load: LoadCells, name = JUDGED): number =>
      Math.min(...others.map((other) => gain(load, other, name)))
    const best = loads.map((load) => onBest(load))
    const columns = [best, ...others.map((other) => loads.map((load) => gain(load, other)))]
    const shares = [
      best.filter((one) => isWorse(one)),
      best.filter((one) => isWorse(one, 10)),
      best.filter(isBetter),
      ...(hasBound ? [loads.filter((load) => !isBetter(onBest(load, BOUND)))] : []),
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
    ...(hasBound ? ['which is impossible'] : []),
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
