/**
 * One run as plain data for reports, so that it can be sent between processes and written to a file.
 *
 * It is made from a replay in virtual time or from load sent to a live server.
 */
import type { FleetReport } from './fleet-report.ts'
import { Distribution } from './distribution.ts'
import type { RequestLog } from './request-log.ts'

/** Value at each of `QUANTILES`. */
type QuantileLine = readonly number[]

export const QUANTILES: readonly number[] = Array.from({ length: 101 }, (_, i) => i / 100)

export interface LabPoint {
  readonly atMs: number
  readonly active: number
  /** In the queues of routers and workers. Null: not known for a live server. */
  readonly queued: number | null
  /** Mean over the workers, 0 to 1. Null: not known for a live server. */
  readonly busy: number | null
}

export interface LabRun {
  readonly name: string
  readonly report: FleetReport
  readonly lines: Readonly<Record<'ttftMs' | 'itlMs' | 'e2eMs', QuantileLine>>
  /** Share of good requests when both goals are multiplied by a factor. */
  readonly goodAt: readonly (readonly [times: number, share: number])[]
  /** Share of good requests in consecutive parts of the run. */
  readonly goodParts: readonly number[]
  readonly points: readonly LabPoint[]
}

const PARTS = 20
const GOAL_TIMES = [0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10] as const
const POINTS_MAX = 400

interface LabRunParts {
  readonly name: string
  readonly report: FleetReport
  readonly log: RequestLog
  readonly points: readonly LabPoint[]
}

export function createLabRun({ name, report, log, points }: LabRunParts): LabRun {
  const [ttft, e2e] = [new Distribution(), new Distribution()]
  const met = new Float64Array(GOAL_TIMES.length)
  const { goal } = report
  const partOf = (place: number): number => Math.floor((place * PARTS) / report.requests)
  const parts = new Map<number, { all: number; good: number }>()
  let place = 0
  for (const row of log.rows()) {
    const part = parts.get(partOf(place)) ?? { all: 0, good: 0 }
    parts.set(partOf(place), part)
    place += 1
    part.all += 1
    if (row.code !== null) continue
    ttft.add(row.ttftMs)
    e2e.add(row.e2eMs)
    const needs = Math.max(row.ttftMs / goal.ttftMs, row.tpotMs / goal.tpotMs)
    if (needs <= 1) part.good += 1
    for (const [i, times] of GOAL_TIMES.entries()) if (needs <= times) met[i]! += 1
  }
  const share = (count: number): number => (report.requests === 0 ? 0 : count / report.requests)
  return {
    name,
    report,
    lines: {
      ttftMs: ttft.quantiles(QUANTILES),
      itlMs: log.itl.quantiles(QUANTILES),
      e2eMs: e2e.quantiles(QUANTILES),
    },
    goodAt: GOAL_TIMES.map((times, i) => [times, share(met[i]!)] as const),
    goodParts: [...parts.values()].map(({ all, good }) => good / all),
    points: thinned(points),
  }
}

/** Means over neighbours, because a page need not show more points than it has pixels. */
function thinned(points: readonly LabPoint[]): LabPoint[] {
  const size = Math.ceil(points.length / POINTS_MAX)
  if (size <= 1) return [...points]
  const thin: LabPoint[] = []
  for (let from = 0; from < points.length; from += size) {
    const group = points.slice(from, from + size)
    const mean = (values: readonly number[]): number =>
      values.reduce((sum, value) => sum + value, 0) / values.length
    const known = (values: readonly (number | null)[]): number | null =>
      values.every((value) => value !== null) ? mean(values) : null
    thin.push({
      atMs: group.at(-1)!.atMs,
      queued: known(group.map(({ queued }) => queued)),
      active: mean(group.map(({ active }) => active)),
      busy: known(group.map(({ busy }) => busy)),
    })
  }
  return thin
}
