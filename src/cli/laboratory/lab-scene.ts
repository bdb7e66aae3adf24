/**
 * Builds the cell that a command line describes.
 */
import { traceNotes } from '../../sim/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { LabCell } from './lab-cell.ts'
import { loadTrace } from './lab-cell.ts'
import { describeFaults, labFaults } from './lab-faults.ts'
import type { Flags } from './lab-flags.ts'
import { describeFleet, labFleet, overheadOf } from './lab-fleet.ts'
import { AS_UPSTREAM } from './lab-served.ts'
import { numberOf, refusal, shareOf, wholeOf } from './lab-pairs.ts'
import { describeTrace, traceSpec } from './lab-trace.ts'

export function labCell(given: string, flags: Flags, options: readonly ResolvedOption[]): LabCell {
  const trace = traceSpec(given, flags)
  loadTrace(trace)
  const { roles, frontends, contextLength, ...served } = labFleet(flags, options)
  const { workers, router } = served
  const { faults, drawn, network } = labFaults(flags['faults'])
  const concurrency = flags['concurrency']
  const overhead = overheadOf(flags)
  return {
    name: `${router.mode ?? 'kv'}, ${describeFleet(workers)}`,
    trace,
    drawnFaults: drawn,
    config: {
      ...served,
      ...(frontends === null ? {} : { frontends }),
      ...(contextLength === null ? {} : { contextLength }),
      seed: wholeOf('--seed', flags['seed'] ?? 0),
      faults,
      network,
      goal: {
        ttftMs: numberOf('--ttft', flags['ttft'] ?? 5000),
        tpotMs: numberOf('--tpot', flags['tpot'] ?? 50),
      },
      leaving: shareOf('--leaving', flags['leaving'] ?? 0),
      check: flags['check'] === true,
      handsKvOver: flags['kvHandOver'] === true,
      ...(roles === null ? {} : { roles }),
      ...(overhead === null ? {} : { overhead }),
      ...(concurrency === undefined
        ? {}
        : { concurrency: wholeOf('--concurrency', concurrency, 1) }),
    },
  }
}

/**
 * The facts that a report prints above its figures. `fleet` is null when the fleet is searched for, or several
 * are compared.
 */
export function factsOf(
  { trace, config, drawnFaults }: LabCell,
  fleet: string | null = describeFleet(config.workers),
): string[] {
  const { goal, seed = 0, faults = [], network = {}, overhead } = config
  const { concurrency, router = {}, frontends = 1, contextLength, workers } = config
  const isGuessed = workers.some(({ name, engine }) => name === AS_UPSTREAM && !engine?.timing)
  return [
    describeTrace(trace, loadTrace(trace).length),
    ...traceNotes(loadTrace(trace), concurrency ?? null),
    concurrency === undefined
      ? 'open loop: requests are sent at the times of the trace'
      : `closed loop: ${concurrency} requests at a time`,
    fleet === null ? `seed ${seed}` : `${fleet}, router mode ${router.mode ?? 'kv'}, seed ${seed}`,
    `good: TTFT ≤ ${goal?.ttftMs} ms and TPOT ≤ ${goal?.tpotMs} ms`,
    ...(isGuessed
      ? [
          'upstream servers are simulated with the speed of the simulated engine; use --timing for a measured one',
        ]
      : []),
    ...(frontends === 1 ? [] : [`${frontends} frontends`]),
    ...(contextLength === undefined ? [] : [`context of ${contextLength} tokens`]),
    ...(overhead === undefined
      ? []
      : [
          `overhead: ${overhead.requestMs.toFixed(2)} ms per request and ${(1000 * overhead.msPerToken).toFixed(2)} ms per 1,000 tokens of its prompt`,
        ]),
    ...describeFaults({ faults, drawn: drawnFaults, network }, seed),
  ]
}

/** The same cell with the n-th seed, which also determines the workload and the faults. */
export function withSeed(cell: LabCell, n: number): LabCell {
  const { trace, config, drawnFaults } = cell
  const seed = (config.seed ?? 0) + n
  const { workload } = trace
  return {
    ...cell,
    trace:
      workload === undefined
        ? trace
        : { ...trace, workload: { ...workload, seed: (workload.seed ?? 0) + n } },
    config: { ...config, seed },
    drawnFaults:
      drawnFaults?.seed === undefined
        ? drawnFaults
        : { ...drawnFaults, seed: drawnFaults.seed + n },
  }
}

/** Throws for `-`: cells run in several processes, and standard input can be read only once. */
export function refuseStandardInput(trace: string): void {
  if (trace === '-')
    throw refusal('trace', "'-' is supported by replay and bench only: give a file")
}
