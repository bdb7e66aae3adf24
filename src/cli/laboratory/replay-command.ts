/**
 * `baton replay`: one trace or workload on one fleet, in virtual time.
 */
import { createLabRun, formatFleetReport, htmlReport } from '../../sim/index.ts'
import type { FleetRun, LabRun } from '../../sim/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { pointsOf, recordCell } from './lab-cell.ts'
import type { LabCell } from './lab-cell.ts'
import type { Flags } from './lab-flags.ts'
import { checkOutputs, printsTable, progressLine, unanswered, writeText } from './lab-output.ts'
import { factsOf, labCell } from './lab-scene.ts'

/** Exit code 1: an invariant was violated (`--check`), or no request was answered. */
export async function runReplay(
  trace: string,
  flags: Flags,
  options: readonly ResolvedOption[],
): Promise<number> {
  checkOutputs(flags, 'json', 'html', 'telemetry', 'requests')
  const cell = labCell(trace, flags, options)
  const recorded = await recordCell(cell, progressLine(flags, 'replay'))
  const { report, log, telemetry } = recorded
  const run = createLabRun({ name: cell.name, report, log, points: pointsOf(telemetry) })
  if (printsTable(flags)) {
    for (const fact of factsOf(cell)) console.log(fact)
    console.log(`\n${formatFleetReport(report)}`)
  }
  for (const violation of report.violations) console.error(`violation: ${violation}`)
  writeReports(flags, cell, run, recorded)
  const fault = unanswered(report)
  if (fault !== null) console.error(`baton: ${fault}`)
  return report.violations.length === 0 && fault === null ? 0 : 1
}

function writeReports(flags: Flags, cell: LabCell, run: LabRun, recorded: FleetRun): void {
  const { json, html, telemetry, requests } = flags
  const facts = factsOf(cell)
  if (typeof json === 'string') {
    const { trace, config, drawnFaults } = cell
    writeText(json, `${JSON.stringify({ facts, trace, config, drawnFaults, run }, null, 2)}\n`)
  }
  if (typeof html === 'string')
    writeText(html, htmlReport({ title: `Replay: ${cell.name}`, facts, runs: [run] }))
  if (typeof telemetry === 'string')
    writeText(telemetry, recorded.telemetry.map((line) => `${JSON.stringify(line)}\n`).join(''))
  if (typeof requests === 'string')
    writeText(requests, [...recorded.log.rows()].map((row) => `${JSON.stringify(row)}\n`).join(''))
}
