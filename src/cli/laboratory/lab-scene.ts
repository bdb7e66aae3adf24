/**
 * The cell that a command line describes.
 */
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { LabCell } from './lab-cell.ts'
import { loadTrace } from './lab-cell.ts'
import { labFaults } from './lab-faults.ts'
import type { Flags } from './lab-flags.ts'
import { describeFleet, labFleet, overheadOf } from './lab-fleet.ts'
import { numberOf, shareOf, wholeOf } from './lab-pairs.ts'
import { describeTrace, traceSpec } from './lab-trace.ts'

export function labCell(given: string, flags: Flags, options: readonly ResolvedOption[]): LabCell {
  const trace = traceSpec(given, flags)
  const requests = loadTrace(trace)
  const { workers, router, migrationLimit } = labFleet(flags, options)
  const seed = wholeOf('--seed', flags['seed'] ?? 0)
  const durationMs = requests.reduce((last, { atMs }) => Math.max(last, atMs), 1)
  const count = workers.reduce((sum, group) => sum + group.count, 0)
  const { faults, network } = labFaults(flags['faults'], { workers: count, durationMs, seed })
  const concurrency = flags['concurrency']
  const overhead = overheadOf(flags)
  return {
    name: `${router.mode ?? 'kv'}, ${describeFleet(workers)}`,
    trace,
    config: {
      workers,
      router,
      migrationLimit,
      seed,
      faults,
      network,
      goal: {
        ttftMs: numberOf('--ttft', flags['ttft'] ?? 5000),
        tpotMs: numberOf('--tpot', flags['tpot'] ?? 50),
      },
      leaving: shareOf('--leaving', flags['leaving'] ?? 0),
      check: flags['check'] === true,
      handsKvOver: flags['kvHandOver'] === true,
      ...(overhead === null ? {} : { overhead }),
      ...(concurrency === undefined
        ? {}
        : { concurrency: wholeOf('--concurrency', concurrency, 1) }),
    },
  }
}

/** What a report says above its figures. */
export function factsOf({ trace, config }: LabCell): string[] {
  const { workers, goal, seed, faults = [], network = {}, overhead } = config
  const { concurrency, router = {} } = config
  const isFaulty = faults.length > 0 || Object.keys(network).length > 0
  return [
    describeTrace(trace, loadTrace(trace).length),
    concurrency === undefined
      ? 'open loop: requests come at their times'
      : `closed loop: ${concurrency} requests under way`,
    `${describeFleet(workers)}, router mode ${router.mode ?? 'kv'}, seed ${seed}`,
    `good: TTFT ≤ ${goal?.ttftMs} ms and TPOT ≤ ${goal?.tpotMs} ms`,
    ...(overhead === undefined
      ? []
      : [
          `overhead: ${overhead.requestMs.toFixed(2)} ms per request and ${(1000 * overhead.msPerToken).toFixed(2)} ms per 1,000 tokens of its prompt`,
        ]),
    ...(isFaulty ? [`faults: ${JSON.stringify(network)}, ${faults.length} events`] : []),
  ]
}

/** The same with the n-th seed: of everything that is drawn, the workload included. */
export function withSeed(cell: LabCell, n: number): LabCell {
  const { trace, config } = cell
  const seed = (config.seed ?? 0) + n
  const { workload } = trace
  return {
    ...cell,
    trace:
      workload === undefined
        ? trace
        : { ...trace, workload: { ...workload, seed: (workload.seed ?? 0) + n } },
    config: { ...config, seed },
  }
}
