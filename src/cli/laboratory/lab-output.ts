/**
 * Writes the laboratory's results: progress and tables to the terminal, reports to files.
 */
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { BatonError } from '../../base/index.ts'
import type { LabRun } from '../../sim/index.ts'
import { writeFile } from '../guard/written-file.ts'
import type { Flags } from './lab-flags.ts'
import { refusal } from './lab-pairs.ts'

/** A progress line on standard error that overwrites itself; nothing when standard error is not a terminal. */
export function progressLine(
  flags: Flags,
  name: string,
  time: 'virtual' | 'real' = 'virtual',
): (ended: number, total: number, nowMs: number) => void {
  if (flags['quiet'] === true || !process.stderr.isTTY) return () => undefined
  let shownMs = 0
  return (ended, total, nowMs) => {
    const realMs = performance.now()
    if (realMs - shownMs < 100 && ended < total) return
    shownMs = realMs
    const percent = Math.floor((100 * ended) / Math.max(1, total))
    const line = `${name}: ${percent} % (${ended} of ${total}), ${(nowMs / 1000).toFixed(0)} s of ${time} time`
    process.stderr.write(
      `\r${line.slice(0, 110).padEnd(110)}${ended >= total ? '\r'.padEnd(111) + '\r' : ''}`,
    )
  }
}

/** Checked before the run, so that an output path that cannot be written is reported before the computation. */
export function checkOutputs(flags: Flags, ...names: readonly string[]): void {
  for (const name of names) {
    const path = flags[name]
    if (typeof path !== 'string' || path === '-') continue
    try {
      const isThere = existsSync(path)
      if (isThere && statSync(path).isDirectory())
        throw refusal(`--${name}`, `${path} is a directory`)
      accessSync(isThere ? path : dirname(path), constants.W_OK)
    } catch (thrown) {
      if (thrown instanceof BatonError) throw thrown
      throw refusal(`--${name}`, `${path} cannot be written`)
    }
  }
}

/** False when standard output is for a file's content, or nothing. */
export function printsTable(flags: Flags): boolean {
  const outputs = ['json', 'html', 'telemetry', 'requests']
  return flags['quiet'] !== true && outputs.every((name) => flags[name] !== '-')
}

export function writeText(path: string, text: string): void {
  writePieces(path, [text])
}

export function writePieces(path: string, pieces: Iterable<string>): void {
  if (path === '-') for (const piece of pieces) process.stdout.write(piece)
  else writeFile(path, pieces)
}

/** The message about a run in which no request was answered; null when some were, or there were none. */
export function unanswered({ completed, failed, requests }: LabRun['report']): string | null {
  if (completed > 0 || requests === 0) return null
  const reasons = Object.entries(failed).map(([code, count]) => `${count} × ${code}`)
  return `no request was answered: ${reasons.join(', ')}`
}

/** One line per run. */
export function runsTable(runs: readonly LabRun[]): string {
  const columns = [
    '',
    'TTFT mean',
    'p50',
    'p99',
    'ITL mean',
    'p99',
    'E2E mean',
    'good %',
    'reuse %',
    'req/s',
    'failed',
  ]
  const rows = runs.map(({ name, report }) => [
    name,
    report.ttftMs.mean.toFixed(0),
    report.ttftMs.p50.toFixed(0),
    report.ttftMs.p99.toFixed(0),
    report.itlMs.mean.toFixed(2),
    report.itlMs.p99.toFixed(2),
    report.e2eMs.mean.toFixed(0),
    (100 * report.good).toFixed(1),
    (100 * report.reuse).toFixed(1),
    report.requestsPerSecond.toFixed(2),
    String(Object.values(report.failed).reduce((sum, count) => sum + count, 0)),
  ])
  return textTable(columns, rows)
}

export function textTable(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const all = [columns, ...rows]
  const widths = columns.map((_, i) => Math.max(...all.map((row) => (row[i] ?? '').length)))
  return all
    .map((row) =>
      row
        .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
        .join('  '),
    )
    .join('\n')
}
