/**
 * What came out of a fleet run, and how to print it.
 *
 * TTFT: first token minus arrival at the frontend. ITL: every gap between two tokens of a request. TPOT of a request:
 * its mean gap. Goodput: requests per second that ended well and met both limits (TTFT and TPOT).
 */
import type { DisaggregationMode } from '../request/index.ts'
import { Distribution } from './distribution.ts'
import type { DistributionSummary } from './distribution.ts'
import type { FleetWorkerTotals } from './fleet-worker.ts'

export interface FleetGoal {
  readonly ttftMs: number
  readonly tpotMs: number
}

export interface FleetWorkerReport extends Readonly<FleetWorkerTotals> {
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
  /** Virtual time from the first arrival to the last end. */
  readonly durationMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Prompt tokens that were found in the caches of the workers that computed the prompts. */
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
  /** Share of all requests that count as good. */
  readonly good: number
  /** Requests that the router still believes to be under way when all have ended: must be 0. */
  readonly leftBookings: number
  readonly workers: readonly FleetWorkerReport[]
}

interface FleetRun {
  readonly requests: number
  readonly startMs: number
  readonly leftBookings: number
}

/** Collects while the fleet runs. */
export class FleetMeasure {
  readonly #ttft = new Distribution()
  readonly #itl = new Distribution()
  readonly #e2e = new Distribution()
  readonly #failed: Record<string, number> = {}
  readonly #goal: FleetGoal
  #completed = 0
  #good = 0
  #outputTokens = 0
  #disaggregated = 0
  #lastEndMs = 0

  constructor(goal: FleetGoal) {
    this.#goal = goal
  }

  get ended(): number {
    return this.#completed + Object.values(this.#failed).reduce((sum, count) => sum + count, 0)
  }

  gap(ms: number): void {
    this.#itl.add(ms)
  }

  completed(ttftMs: number, e2eMs: number, tokens: number, atMs: number): void {
    this.#completed += 1
    this.#outputTokens += tokens
    this.#lastEndMs = atMs
    this.#ttft.add(ttftMs)
    this.#e2e.add(e2eMs)
    const tpotMs = tokens > 1 ? (e2eMs - ttftMs) / (tokens - 1) : 0
    if (ttftMs <= this.#goal.ttftMs && tpotMs <= this.#goal.tpotMs) this.#good += 1
  }

  failed(code: string, atMs: number): void {
    this.#failed[code] = (this.#failed[code] ?? 0) + 1
    this.#lastEndMs = atMs
  }

  disaggregated(): void {
    this.#disaggregated += 1
  }

  report(run: FleetRun, workers: readonly FleetWorkerReport[]): FleetReport {
    const { requests, startMs, leftBookings } = run
    const durationMs = Math.max(0, this.#lastEndMs - startMs)
    const perSecond = (count: number): number =>
      durationMs === 0 ? 0 : (count * 1000) / durationMs
    const sum = (pick: (worker: FleetWorkerReport) => number): number =>
      workers.reduce((total, worker) => total + pick(worker), 0)
    const promptTokens = sum((worker) => worker.promptTokens)
    const cachedTokens = sum((worker) => worker.cachedTokens)
    const promptBlocks = sum((worker) => worker.promptBlocks)
    const cachedBlocks = sum((worker) => worker.cachedBlocks)
    return {
      requests,
      completed: this.#completed,
      failed: this.#failed,
      disaggregated: this.#disaggregated,
      durationMs,
      promptTokens,
      outputTokens: this.#outputTokens,
      cachedTokens,
      reuse: promptTokens === 0 ? 0 : cachedTokens / promptTokens,
      blockReuse: promptBlocks === 0 ? 0 : cachedBlocks / promptBlocks,
      ttftMs: this.#ttft.summary(),
      itlMs: this.#itl.summary(),
      e2eMs: this.#e2e.summary(),
      requestsPerSecond: perSecond(this.#completed),
      outputTokensPerSecond: perSecond(this.#outputTokens),
      goodputPerSecond: perSecond(this.#good),
      good: requests === 0 ? 0 : this.#good / requests,
      leftBookings,
      workers: workers.map((worker) => ({
        ...worker,
        utilisation: durationMs === 0 ? 0 : worker.busyMs / durationMs,
      })),
    }
  }
}

/** A report for a terminal. */
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
