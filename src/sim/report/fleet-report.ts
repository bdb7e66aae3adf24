/**
 * The result of a fleet run, and how to print it.
 *
 * TTFT: first token minus arrival at the frontend. ITL: every gap between two tokens of a request. TPOT of a
 * request: its mean gap. Goodput: successful requests per second that met both limits (TTFT and TPOT).
 */
import type { DisaggregationMode } from '../../request/index.ts'
import { Distribution } from './distribution.ts'
import type { DistributionSummary } from './distribution.ts'
import type { RequestLog } from './request-log.ts'

export interface FleetGoal {
  readonly ttftMs: number
  readonly tpotMs: number
}

/** Totals of one worker. */
export interface FleetWorkerTotals {
  readonly requests: number
  readonly promptTokens: number
  readonly cachedTokens: number
  /** In blocks of 512 tokens, as traces count. */
  readonly promptBlocks: number
  readonly cachedBlocks: number
  readonly outputTokens: number
  readonly busyMs: number
  readonly preemptions: number
  readonly steps: number
}

export interface FleetWorkerReport extends FleetWorkerTotals {
  readonly workerId: string
  readonly mode: DisaggregationMode
  /** Share of the run in which it computed. */
  readonly utilisation: number
}

export interface FleetReport {
  readonly requests: number
  readonly completed: number
  /** By error code. */
  readonly failed: Readonly<Record<string, number>>
  /** Requests that ran on a prefill and a decode worker. */
  readonly disaggregated: number
  /** Attempts that continued on another worker. */
  readonly migrations: number
  /** Virtual time from the first arrival to the last end. */
  readonly durationMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Prompt tokens found in the caches of the workers that computed the prompts. */
  readonly cachedTokens: number
  readonly reuse: number
  /** The same in blocks of 512 tokens, comparable with `idealReuse`. */
  readonly blockReuse: number
  readonly ttftMs: DistributionSummary
  readonly itlMs: DistributionSummary
  readonly e2eMs: DistributionSummary
  readonly requestsPerSecond: number
  readonly outputTokensPerSecond: number
  readonly goodputPerSecond: number
  /** The definition of a good request. */
  readonly goal: FleetGoal
  /** Share of all requests that are good. */
  readonly good: number
  /** Requests that the router still counts as running when all have ended: must be 0. */
  readonly leftBookings: number
  /** Violated invariants; see `faults`. Empty when nothing was checked. */
  readonly violations: readonly string[]
  readonly workers: readonly FleetWorkerReport[]
}

interface FleetRun {
  readonly requests: number
  readonly leftBookings: number
  readonly migrations: number
  readonly violations: readonly string[]
  readonly goal: FleetGoal
}

export function createFleetReport(
  log: RequestLog,
  run: FleetRun,
  workers: readonly Omit<FleetWorkerReport, 'utilisation'>[],
): FleetReport {
  const { requests, leftBookings, migrations, violations, goal } = run
  const [ttft, e2e] = [new Distribution(), new Distribution()]
  let [completed, good, outputTokens] = [0, 0, 0]
  for (const { code, ttftMs, tpotMs, e2eMs, tokens } of log.rows()) {
    if (code !== null) continue
    completed += 1
    outputTokens += tokens
    ttft.add(ttftMs)
    e2e.add(e2eMs)
    if (ttftMs <= goal.ttftMs && tpotMs <= goal.tpotMs) good += 1
  }
  const durationMs = Math.max(0, log.lastEndMs - log.firstAtMs)
  const perSecond = (count: number): number => (durationMs === 0 ? 0 : (count * 1000) / durationMs)
  const sum = (pick: (worker: FleetWorkerTotals) => number): number =>
    workers.reduce((total, worker) => total + pick(worker), 0)
  const promptTokens = sum((worker) => worker.promptTokens)
  const cachedTokens = sum((worker) => worker.cachedTokens)
  const promptBlocks = sum((worker) => worker.promptBlocks)
  const cachedBlocks = sum((worker) => worker.cachedBlocks)
  return {
    requests,
    completed,
    failed: log.failed,
    disaggregated: log.disaggregated,
    migrations,
    durationMs,
    promptTokens,
    outputTokens,
    cachedTokens,
    reuse: promptTokens === 0 ? 0 : cachedTokens / promptTokens,
    blockReuse: promptBlocks === 0 ? 0 : cachedBlocks / promptBlocks,
    ttftMs: ttft.summary(),
    itlMs: log.itl.summary(),
    e2eMs: e2e.summary(),
    requestsPerSecond: perSecond(completed),
    outputTokensPerSecond: perSecond(outputTokens),
    goodputPerSecond: perSecond(good),
    goal,
    good: requests === 0 ? 0 : good / requests,
    leftBookings,
    violations,
    workers: workers.map((worker) => ({
      ...worker,
      // A step that was cut off by a death was counted completely.
      utilisation: durationMs === 0 ? 0 : Math.min(1, worker.busyMs / durationMs),
    })),
  }
}

/** Formats a report for a terminal. */
export function formatFleetReport(report: FleetReport): string {
  const line = (name: string, { mean, p50, p90, p99, max }: DistributionSummary): string =>
    [name.padEnd(10), ...[mean, p50, p90, p99, max].map((ms) => ms.toFixed(1).padStart(10))].join(
      '',
    )
  const failed = Object.entries(report.failed).map(([code, count]) => `${count} × ${code}`)
  return [
    `requests   ${report.requests}, completed ${report.completed}, failed ${failed.join(', ') || 0}`,
    `time       ${(report.durationMs / 1000).toFixed(1)} s (virtual), ${report.requestsPerSecond.toFixed(2)} requests/s, ${report.outputTokensPerSecond.toFixed(0)} tokens/s`,
    `prompts    ${report.promptTokens} tokens, ${(100 * report.reuse).toFixed(2)} % from a cache; ${report.disaggregated} requests disaggregated`,
    `goodput    ${report.goodputPerSecond.toFixed(2)} requests/s, ${(100 * report.good).toFixed(1)} % of all`,
    [
      'ms'.padEnd(10),
      ...['mean', 'p50', 'p90', 'p99', 'max'].map((name) => name.padStart(10)),
    ].join(''),
    line('TTFT', report.ttftMs),
    line('ITL', report.itlMs),
    line('E2E', report.e2eMs),
    ...report.workers.map(
      (worker) =>
        `worker ${worker.workerId} (${worker.mode}): ${worker.requests} requests, busy ${(100 * worker.utilisation).toFixed(0)} %, ${worker.preemptions} preempted`,
    ),
  ].join('\n')
}
