/**
 * `baton plan`: finds the cheapest number and kind of workers that meets the goals on a trace.
 */
import { htmlReport, planFleet, shareMargin } from '../../sim/index.ts'
import type { FleetGroup, FleetSize, FleetTrial, HtmlSection, LabRun } from '../../sim/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { LabCell } from './lab-cell.ts'
import type { Flags } from './lab-flags.ts'
import { checkOutputs, textTable, unanswered, writeText } from './lab-output.ts'
import { numberOf, parsePairs, refusal, shareOf, wholeOf } from './lab-pairs.ts'
import { LabPool } from './lab-pool.ts'
import type { LabRuns } from './lab-pool.ts'
import { factsOf, labCell, refuseStandardInput, withSeed } from './lab-scene.ts'
import { withPace } from './lab-served.ts'

interface Measured {
  readonly runs: readonly LabRun[]
  readonly good: number
  readonly margin: number
}

const KINDS = ['aggregated', 'disaggregated'] as const

/** Exit code 1: no fleet within the limits meets the goals. */
export async function runPlan(
  trace: string,
  flags: Flags,
  options: readonly ResolvedOption[],
  main: string,
): Promise<number> {
  checkOutputs(flags, 'json', 'html')
  refuseStandardInput(trace)
  const cell = labCell(trace, flags, options)
  const seeds = wholeOf('--seeds', flags['seeds'] ?? 3, 1)
  const goal = shareOf('--good', flags['good'] ?? 0.99)
  const measured = new Map<string, Measured>()
  const isShown = flags['quiet'] !== true && process.stderr.isTTY
  const pool = new LabPool({ main })
  const begun = new Map<string, LabRuns>()
  const begin = (size: FleetSize): LabRuns => {
    const cells = Array.from({ length: seeds }, (_, i) => withSeed(cellFor(cell, size), i))
    const runs = begun.get(keyOf(size)) ?? pool.runs(cells)
    begun.set(keyOf(size), runs)
    return runs
  }
  const plan = await planFleet({
    costs: costsOf(flags['costs']),
    kinds: kindsOf(flags['kinds']),
    workersMax: wholeOf('--max', flags['max'] ?? 64, 1),
    // Cores that the seeds of one fleet leave idle start the fleets that may be tried next.
    lookAhead: Math.ceil(pool.jobs / seeds),
    next: (sizes) => {
      for (const runs of begun.values()) runs.unlikely()
      for (const size of sizes) begin(size).likely()
    },
    meets: async (size) => {
      if (isShown) process.stderr.write(`\rplan: ${nameOf(size)}: …`.padEnd(79))
      const runs = await begin(size).wanted()
      const mean = runs.reduce((sum, { report }) => sum + report.good, 0) / runs.length
      const shares = runs.map(({ report, goodParts }) => ({
        requests: report.requests,
        share: report.good,
        parts: goodParts,
      }))
      const margin = shareMargin(shares, cell.trace.workload !== undefined)
      measured.set(keyOf(size), { runs, good: mean, margin })
      if (isShown)
        process.stderr.write(
          `\rplan: ${nameOf(size)}: ${(100 * mean).toFixed(2)} % good`.padEnd(79),
        )
      // A fleet that answers no request would meet a goal of 0 %.
      return mean >= goal && runs.every(({ report }) => unanswered(report) === null)
    },
  }).finally(() => pool.close())
  const of = (trial: FleetTrial): Measured => measured.get(keyOf(trial.size))!
  const section = trialsOf(plan.trials, of, goal)
  const facts = [...factsOf(cell, null), `at least ${100 * goal} % good, ${seeds} seeds`]
  const verdict = verdictOf(plan.best, of, goal)
  if (isShown) process.stderr.write('\r'.padEnd(80) + '\r')
  if (flags['quiet'] !== true && flags['json'] !== '-') {
    console.log(`${facts.join('\n')}\n\n${textTable(section.columns, section.rows)}\n\n${verdict}`)
  }
  const best = plan.best === null ? [] : of(plan.best).runs.slice(0, 1)
  if (typeof flags['json'] === 'string')
    writeText(flags['json'], `${JSON.stringify({ facts, verdict, plan, runs: best }, null, 2)}\n`)
  if (typeof flags['html'] === 'string')
    writeText(
      flags['html'],
      htmlReport({ title: `Plan: ${verdict}`, facts, runs: best, sections: [section] }),
    )
  const faults = plan.trials.map((trial) => unanswered(of(trial).runs[0]!.report))
  const [fault] = faults
  if (typeof fault === 'string' && faults.every((each) => each !== null))
    console.error(`baton: ${fault}, by any fleet that was tried`)
  return plan.best === null ? 1 : 0
}

function cellFor(cell: LabCell, { aggregated, prefill, decode }: FleetSize): LabCell {
  const { engine = {}, pace } = cell.config.workers[0] ?? {}
  const groups: FleetGroup[] = [
    { mode: 'prefill', count: prefill, engine },
    { mode: 'decode', count: decode, engine },
    { mode: 'agg', count: aggregated, engine },
  ]
  const workers = groups.filter(({ count }) => count > 0).map((group) => withPace(group, pace))
  // Scheduled faults of a worker that this fleet does not have are dropped.
  const faults = (cell.config.faults ?? []).filter(
    ({ worker }) => worker < aggregated + prefill + decode,
  )
  return {
    ...cell,
    name: nameOf({ aggregated, prefill, decode }),
    config: { ...cell.config, workers, faults },
  }
}

function trialsOf(
  trials: readonly FleetTrial[],
  of: (trial: FleetTrial) => Measured,
  goal: number,
): HtmlSection {
  const sorted = trials.toSorted((a, b) => a.cost - b.cost)
  return {
    title: 'Fleets that were tried, cheapest first',
    columns: ['', 'cost', 'good %', '± 95 %', 'TTFT p99 ms', 'TPOT mean ms', 'utilisation %', ''],
    rows: sorted.map((trial) => {
      const { runs, good, margin } = of(trial)
      const mean = (pick: (run: LabRun) => number): number =>
        runs.reduce((sum, run) => sum + pick(run), 0) / runs.length
      return [
        nameOf(trial.size),
        trial.cost.toFixed(2),
        (100 * good).toFixed(2),
        (100 * margin).toFixed(2),
        mean(({ report }) => report.ttftMs.p99).toFixed(0),
        mean(({ report }) => report.itlMs.mean).toFixed(2),
        (100 * mean(({ report }) => busyOf(report.workers))).toFixed(0),
        trial.meets ? (good - margin >= goal ? 'meets' : 'meets, narrowly') : 'falls short',
      ]
    }),
  }
}

function busyOf(workers: LabRun['report']['workers']): number {
  return (
    workers.reduce((sum, { utilisation }) => sum + utilisation, 0) / Math.max(1, workers.length)
  )
}

function verdictOf(
  best: FleetTrial | null,
  of: (trial: FleetTrial) => Measured,
  goal: number,
): string {
  if (best === null)
    return 'no fleet within the limits meets the goals: raise --max, or relax the goals'
  const { good, margin } = of(best)
  const percent = (share: number): string => (100 * share).toFixed(2)
  const sure =
    good - margin >= goal
      ? 'the whole confidence interval meets the goal'
      : 'the confidence interval reaches below the goal: use more requests, or more --seeds of a workload'
  return `${nameOf(best.size)}, cost ${best.cost}: ${percent(good)} ± ${percent(margin)} % good; ${sure}`
}

function costsOf(given: Flags[string]): FleetSize {
  const pairs = parsePairs('--costs', typeof given === 'string' ? given : '', [
    'aggregated',
    'prefill',
    'decode',
  ])
  const cost = (kind: string): number => numberOf(`--costs ${kind}`, pairs.get(kind) ?? 1)
  return { aggregated: cost('aggregated'), prefill: cost('prefill'), decode: cost('decode') }
}

function kindsOf(given: Flags[string]): readonly (typeof KINDS)[number][] {
  if (typeof given !== 'string') return KINDS
  const names = given.split(',')
  const odd = names.find((name) => !(KINDS as readonly string[]).includes(name))
  if (odd !== undefined)
    throw refusal('--kinds', `'${odd}' is invalid: expected one of ${KINDS.join(', ')}`)
  return KINDS.filter((kind) => names.includes(kind))
}

function nameOf({ aggregated, prefill, decode }: FleetSize): string {
  return aggregated > 0 ? `${aggregated} aggregated` : `${prefill} prefill + ${decode} decode`
}

function keyOf(size: FleetSize): string {
  return JSON.stringify(size)
}
