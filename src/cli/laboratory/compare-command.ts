/**
 * `baton compare`: policies × fleets on the same requests and the same seeds, with confidence intervals of
 * their differences.
 */
import { htmlReport, meanWithMargin, pairedDifference } from '../../sim/index.ts'
import type { FleetGroup, HtmlSection, LabRun } from '../../sim/index.ts'
import type { RouterOptions } from '../../router/index.ts'
import { parseRouterOptions } from '../../router/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { LabCell } from './lab-cell.ts'
import type { Flags } from './lab-flags.ts'
import { describeFleet, groupsOf, refuseDirect } from './lab-fleet.ts'
import { withPace } from './lab-served.ts'
import {
  checkOutputs,
  printsTable,
  runsTable,
  textTable,
  unanswered,
  writeText,
} from './lab-output.ts'
import { parsePairs, saidValue, wholeOf } from './lab-pairs.ts'
import { LabPool } from './lab-pool.ts'
import { factsOf, labCell, refuseStandardInput, withSeed } from './lab-scene.ts'

interface Contender {
  readonly name: string
  readonly router: RouterOptions
  readonly workers: readonly FleetGroup[]
}

type Metric = readonly [name: string, of: (run: LabRun) => number]

const METRICS: readonly Metric[] = [
  ['TTFT mean', ({ report }) => report.ttftMs.mean],
  ['TTFT p99', ({ report }) => report.ttftMs.p99],
  ['ITL mean', ({ report }) => report.itlMs.mean],
  ['E2E mean', ({ report }) => report.e2eMs.mean],
  ['good', ({ report }) => report.good],
  ['reuse', ({ report }) => report.reuse],
]

/** Exit code 1: a policy or fleet answered no request. */
export async function runCompare(
  trace: string,
  flags: Flags,
  options: readonly ResolvedOption[],
  main: string,
): Promise<number> {
  checkOutputs(flags, 'json', 'html')
  refuseStandardInput(trace)
  const cell = labCell(trace, flags, options)
  const contenders = contendersOf(cell, flags)
  const seeds = wholeOf('--seeds', flags['seeds'] ?? 3, 1)
  const cells = contenders.flatMap((contender) =>
    Array.from({ length: seeds }, (_, i) => cellOf(cell, contender, i)),
  )
  const isShown = flags['quiet'] !== true && process.stderr.isTTY
  const jobs = flags['jobs'] === undefined ? {} : { jobs: wholeOf('--jobs', flags['jobs'], 1) }
  const pool = new LabPool({ main, ...jobs })
  const tellDone = (done: number): void => {
    if (isShown) process.stderr.write(`\rcompare: ${done} of ${cells.length} runs\r`)
  }
  tellDone(0)
  const runs = await pool.run(cells, tellDone).finally(() => pool.close())
  if (isShown) process.stderr.write('\r'.padEnd(80) + '\r')
  const groups = contenders.map((_, i) => runs.slice(i * seeds, (i + 1) * seeds))
  const section = differences(contenders, groups, cell.trace.workload !== undefined)
  const fleets = new Set(contenders.map(({ workers }) => describeFleet(workers)))
  const [fleet = null] = fleets.size === 1 ? fleets : []
  const facts = [
    ...factsOf(cell, null),
    ...(fleet === null ? [] : [fleet]),
    `${seeds} seeds, paired; the first line is the baseline`,
  ]
  const firsts = groups.map((group) => group[0]!)
  if (printsTable(flags)) {
    console.log(facts.join('\n'))
    console.log(`\nfirst seed\n${runsTable(firsts)}`)
    console.log(`\n${section.title}\n${textTable(section.columns, section.rows)}\n${section.note}`)
  }
  if (typeof flags['json'] === 'string')
    writeText(
      flags['json'],
      `${JSON.stringify({ facts, contenders, differences: section, paired: pairedOf(contenders, groups), runs: groups }, null, 2)}\n`,
    )
  if (typeof flags['html'] === 'string')
    writeText(
      flags['html'],
      htmlReport({ title: 'Comparison', facts, runs: firsts, sections: [section] }),
    )
  return printUnanswered(contenders, groups) ? 1 : 0
}

/** True when a policy or fleet answered no request, so that its figures are meaningless. */
function printUnanswered(
  contenders: readonly Contender[],
  groups: readonly (readonly LabRun[])[],
): boolean {
  let isPrinted = false
  for (const [i, { name }] of contenders.entries()) {
    const fault = groups[i]!.map(({ report }) => unanswered(report)).find((each) => each !== null)
    if (fault === undefined) continue
    console.error(`baton: ${name}: ${fault}`)
    isPrinted = true
  }
  return isPrinted
}

function contendersOf(cell: LabCell, flags: Flags): Contender[] {
  const { router = {}, workers } = cell.config
  const policies = listOf(flags['policy']).map((spec) => policyOf(spec, router))
  const { engine = {}, pace } = workers[0] ?? {}
  const fleets = listOf(flags['fleet']).map((spec) =>
    groupsOf(spec.split('+'), engine).map((group) => withPace(group, pace)),
  )
  const named = policies.length > 0 ? policies : [{ name: router.mode ?? 'kv', router }]
  const all = fleets.length > 0 ? fleets : [workers]
  return all.flatMap((fleet) =>
    named.map((policy) => ({
      name: all.length > 1 ? `${policy.name} on ${describeFleet(fleet)}` : policy.name,
      router: policy.router,
      workers: fleet,
    })),
  )
}

/**
 * Parses `round-robin`, or `kv:prefillLoadScale=1,decodeActiveRequestWeight=0`: a mode with any option of the
 * router's file.
 */
function policyOf(spec: string, base: RouterOptions): { name: string; router: RouterOptions } {
  const [mode = '', ...rest] = spec.split(':')
  const own: Record<string, unknown> = { mode }
  for (const [name, value] of parsePairs('--policy', rest.join(':'))) own[name] = saidValue(value)
  const router = { ...base, ...parseRouterOptions(own) }
  refuseDirect(router, '--policy')
  return { name: spec, router }
}

function cellOf(cell: LabCell, { name, router, workers }: Contender, seed: number): LabCell {
  return withSeed({ ...cell, name, config: { ...cell.config, router, workers } }, seed)
}

function differences(
  contenders: readonly Contender[],
  groups: readonly LabRun[][],
  areDrawn: boolean,
): HtmlSection {
  const [baseline] = groups
  const rows = contenders.map(({ name }, i) => [
    name,
    ...METRICS.map(([, of]) =>
      i === 0
        ? plain(groups[i]!.map(of))
        : signed(pairedDifference(baseline!.map(of), groups[i]!.map(of))),
    ),
  ])
  return {
    title: 'Differences from the first line, paired by seed, with 95 % confidence',
    columns: ['', ...METRICS.map(([name]) => name)],
    rows,
    note: `An interval that contains 0 is no difference that these seeds could show.${areDrawn ? '' : ' The requests are those of the file with every seed: an interval says nothing about other traffic.'}`,
  }
}

/** The table of differences as numbers; shares are fractions of the baseline's mean. */
function pairedOf(
  contenders: readonly Contender[],
  groups: readonly (readonly LabRun[])[],
): readonly object[] {
  const [baseline = []] = groups
  return contenders.slice(1).map(({ name }, i) => ({
    name,
    ...Object.fromEntries(
      METRICS.map(([metric, of]) => [
        metric,
        pairedDifference(baseline.map(of), groups[i + 1]!.map(of)),
      ]),
    ),
  }))
}

function plain(values: readonly number[]): string {
  const { mean, margin } = meanWithMargin(values)
  const text = mean.toPrecision(4)
  const width = Number(margin.toPrecision(2))
  return Number.isFinite(margin) && margin > 0 ? `${text} ± ${width}` : text
}

function signed({ relative, relativeMargin }: ReturnType<typeof pairedDifference>): string {
  if (Number.isNaN(relative)) return '–'
  const percent = (share: number): string => (100 * share).toFixed(1)
  const margin = Number.isFinite(relativeMargin) ? ` ± ${percent(relativeMargin)}` : ''
  return `${relative >= 0 ? '+' : ''}${percent(relative)}${margin} %`
}

function listOf(value: Flags[string]): readonly string[] {
  return typeof value === 'object' ? value : []
}
