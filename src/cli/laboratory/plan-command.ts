/**
 * `baton plan`: finds the cheapest number and kind of workers that meets the goals on a trace.
 */
import { htmlReport, planFleet, shareMargin } from '../../sim/index.ts'
import type { FleetSize, FleetTrial, LabRun } from '../../sim/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { LabCell } from './lab-cell.ts'
import type { Flags } from './lab-flags.ts'
import { checkOutputs, printsTable, textTable, unanswered, writeText } from './lab-output.ts'
import { refusal, shareOf, wholeOf } from './lab-pairs.ts'
import { LabPool } from './lab-pool.ts'
import type { LabRuns } from './lab-pool.ts'
import { factsOf, labCell, refuseStandardInput, withSeed } from './lab-scene.ts'
import { planVariants, sizeName, workersOf } from './plan-kinds.ts'
import type { PlanVariant } from './plan-kinds.ts'
import { trialsOf, verdictOf } from './plan-text.ts'
import type { MeasuredTrial } from './plan-text.ts'

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
  const { aggregated, prefill, decode, ...searched } = flags
  for (const [name, said] of Object.entries({ aggregated, prefill, decode }))
    if (said !== undefined)
      console.error(`--${name} is not used: plan looks for the numbers of workers, up to --max`)
  const cell = labCell(trace, searched, options)
  const variants = planVariants(cell.config.workers, flags)
  const kinds = kindsOf(flags['kinds'])
  const seeds = wholeOf('--seeds', flags['seeds'] ?? 3, 1)
  const goal = shareOf('--good', flags['good'] ?? 0.99)
  const workersMax = wholeOf('--max', flags['max'] ?? 64, 1)
  const areDrawn = cell.trace.workload !== undefined
  const tell = progress(flags)
  const pool = new LabPool({ main })
  const trials: MeasuredTrial[] = []
  let best: MeasuredTrial | null = null
  const search = async (variant: PlanVariant): Promise<void> => {
    const begun = new Map<string, LabRuns>()
    const begin = (size: FleetSize): LabRuns => {
      const cells = Array.from({ length: seeds }, (_, i) =>
        withSeed(cellFor(cell, size, variant), i),
      )
      const runs = begun.get(keyOf(size)) ?? pool.runs(cells)
      begun.set(keyOf(size), runs)
      return runs
    }
    const measured = new Map<string, Omit<MeasuredTrial, keyof FleetTrial>>()
    const { best: found, trials: tried } = await planFleet({
      costs: {
        aggregated: variant.aggregated?.cost ?? 0,
        prefill: variant.prefill?.cost ?? 0,
        decode: variant.decode?.cost ?? 0,
      },
      kinds: [variant.aggregated === undefined ? 'disaggregated' : 'aggregated'],
      workersMax,
      ...(best === null ? {} : { below: best.cost }),
      // Cores that the seeds of one fleet leave idle start the fleets that may be tried next.
      lookAhead: Math.ceil(pool.jobs / seeds),
      next: (sizes) => {
        for (const runs of begun.values()) runs.unlikely()
        for (const size of sizes) begin(size).likely()
      },
      meets: async (size) => {
        const name = sizeName(size, variant)
        tell(`${name}: …`)
        const runs = await begin(size).wanted()
        const good = runs.reduce((sum, { report }) => sum + report.good, 0) / runs.length
        const margin = shareMargin(runs.map(shareRunOf), areDrawn)
        measured.set(keyOf(size), { name, runs, good, margin })
        tell(`${name}: ${(100 * good).toFixed(2)} % good`)
        // A fleet that answers no request would meet a goal of 0 %.
        return good >= goal && runs.every(({ report }) => unanswered(report) === null)
      },
    })
    for (const runs of begun.values()) runs.unlikely()
    const complete = (trial: FleetTrial): MeasuredTrial => ({
      ...trial,
      ...measured.get(keyOf(trial.size))!,
    })
    trials.push(...tried.map(complete))
    if (found !== null) best = complete(found)
  }
  try {
    for (const variant of variants)
      if (kinds.includes(variant.aggregated === undefined ? 'disaggregated' : 'aggregated'))
        await search(variant)
  } finally {
    pool.close()
    tell(null)
  }
  if (trials.length === 0)
    throw refusal('--kinds', `${kinds.join(', ')}: --workers has no workers of these kinds`)
  printPlan({ flags, cell, seeds, goal, trials, best })
  return best === null ? 1 : 0
}

interface PlanResult {
  readonly flags: Flags
  readonly cell: LabCell
  readonly seeds: number
  readonly goal: number
  readonly trials: readonly MeasuredTrial[]
  readonly best: MeasuredTrial | null
}

function printPlan({ flags, cell, seeds, goal, trials, best }: PlanResult): void {
  const section = trialsOf(trials, goal)
  const facts = [...factsOf(cell, null), `at least ${100 * goal} % good, ${seeds} seeds`]
  const verdict = verdictOf(trials, best, goal)
  if (printsTable(flags))
    console.log(`${facts.join('\n')}\n\n${textTable(section.columns, section.rows)}\n\n${verdict}`)
  const runs = best === null ? [] : best.runs.slice(0, 1)
  const plain = ({ runs: _runs, ...trial }: MeasuredTrial): Omit<MeasuredTrial, 'runs'> => trial
  const plan = { best: best === null ? null : plain(best), trials: trials.map(plain) }
  if (typeof flags['json'] === 'string')
    writeText(flags['json'], `${JSON.stringify({ facts, verdict, plan, runs }, null, 2)}\n`)
  if (typeof flags['html'] === 'string')
    writeText(
      flags['html'],
      htmlReport({ title: `Plan: ${verdict}`, facts, runs, sections: [section] }),
    )
  const faults = trials.map(({ runs: [first] }) => unanswered(first!.report))
  const [fault] = faults
  if (typeof fault === 'string' && faults.every((each) => each !== null))
    console.error(`baton: ${fault}, by any fleet that was tried`)
}

/** Null: the line is removed. */
function progress(flags: Flags): (text: string | null) => void {
  if (flags['quiet'] === true || !process.stderr.isTTY) return () => undefined
  return (text) => {
    process.stderr.write(text === null ? '\r'.padEnd(80) + '\r' : `\rplan: ${text}`.padEnd(79))
  }
}

function shareRunOf({ report, goodParts }: LabRun): Parameters<typeof shareMargin>[0][number] {
  return { requests: report.requests, share: report.good, parts: goodParts }
}

function cellFor(cell: LabCell, size: FleetSize, variant: PlanVariant): LabCell {
  const workers = workersOf(size, variant)
  const count = workers.reduce((sum, group) => sum + group.count, 0)
  // Scheduled faults of a worker that this fleet does not have are dropped.
  const faults = (cell.config.faults ?? []).filter(({ worker }) => worker < count)
  return { ...cell, name: sizeName(size, variant), config: { ...cell.config, workers, faults } }
}

function kindsOf(given: Flags[string]): readonly (typeof KINDS)[number][] {
  if (typeof given !== 'string') return KINDS
  const names = given.split(',')
  const odd = names.find((name) => !(KINDS as readonly string[]).includes(name))
  if (odd !== undefined)
    throw refusal('--kinds', `'${odd}' is invalid: expected one of ${KINDS.join(', ')}`)
  return KINDS.filter((kind) => names.includes(kind))
}

function keyOf(size: FleetSize): string {
  return JSON.stringify(size)
}
