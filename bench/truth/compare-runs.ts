/**
 * Compares two reports of the same requests: the measured and the simulated values, and their difference.
 */
import type { LabRun } from '../../src/sim/index.ts'

export interface TruthRow {
  readonly load: string
  readonly metric: string
  readonly measured: number
  readonly simulated: number
  /** Largest allowed difference, as a share of the measured value; null: shown, not judged. */
  readonly limit: number | null
}

interface Limits {
  readonly p50: number
  readonly p99: number | null
}

/** TTFT, ITL, E2E at p50 and p99, and tokens per second. */
export function compareRuns(
  load: string,
  measured: LabRun['report'],
  simulated: LabRun['report'],
  limits: Limits,
): TruthRow[] {
  const times = (['ttftMs', 'itlMs', 'e2eMs'] as const).flatMap((key) =>
    (['p50', 'p99'] as const).map((share) => ({
      load,
      metric: `${key.slice(0, -2).toUpperCase()} ${share} ms`,
      measured: measured[key][share],
      simulated: simulated[key][share],
      limit: limits[share],
    })),
  )
  return [
    ...times,
    {
      load,
      metric: 'tokens/s',
      measured: measured.outputTokensPerSecond,
      simulated: simulated.outputTokensPerSecond,
      limit: limits.p50,
    },
  ]
}

export function errorOf({ measured, simulated }: TruthRow): number {
  return measured === 0 ? 0 : simulated / measured - 1
}

export function isWithin(row: TruthRow): boolean {
  return row.limit === null || Math.abs(errorOf(row)) <= row.limit
}

/** A table in Markdown, which can be copied to the documentation. */
export function truthTable(rows: readonly TruthRow[]): string {
  const lines = rows.map((row) => {
    const limit = row.limit === null ? '–' : `${100 * row.limit} %`
    const error = `${errorOf(row) >= 0 ? '+' : ''}${(100 * errorOf(row)).toFixed(1)} %`
    const verdict = isWithin(row) ? '' : ' **over**'
    return `| ${row.load} | ${row.metric} | ${figure(row.measured)} | ${figure(row.simulated)} | ${error}${verdict} | ${limit} |`
  })
  return [
    '| load | | measured | simulated | difference | limit |',
    '|---|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2)
}
