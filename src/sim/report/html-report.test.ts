/** The page is self-contained: no script, no external resources, every text escaped, the same bytes each time. */
import { describe, expect, it } from 'vitest'
import { recordFleet } from '../fleet/run-fleet.ts'
import { createWorkload } from '../trace/workload.ts'
import { htmlReport } from './html-report.ts'
import { createLabRun } from './lab-run.ts'
import type { LabRun } from './lab-run.ts'

async function runOf(name: string): Promise<LabRun> {
  const trace = createWorkload({ kind: 'rag', requests: 60, requestsPerSecond: 10 })
  const { report, log, telemetry } = await recordFleet({
    workers: [{ mode: 'agg', count: 2 }],
    trace,
    sampleMs: 200,
  })
  const points = telemetry.map(({ atMs }) => ({ atMs, queued: 0, active: 1, busy: 0.5 }))
  return createLabRun({ name, report, log, points })
}

describe('htmlReport', () => {
  it('one run, several runs, none - a page without scripts, references or NaN', async () => {
    const run = await runOf('<b>"kv" & more</b>')
    for (const runs of [[run], [run, { ...run, name: 'other' }], []]) {
      const page = htmlReport({ title: 'a < b', facts: ['x & y'], runs })
      expect(page).toContain('<title>a &lt; b</title>')
      expect(page).not.toMatch(/<script|https?:|NaN|Infinity|undefined|<b>"kv"/)
    }
    const live = { ...run, points: run.points.map((at) => ({ ...at, queued: null, busy: null })) }
    const page = htmlReport({ title: 't', facts: [], runs: [live] })
    expect(page).toContain('Under way')
    // Not known for a live server, so no charts of zeros.
    expect(page).not.toMatch(/Utilisation|queues/)
    const options = { title: 't', facts: [], runs: [run] }
    expect(htmlReport(options)).toBe(htmlReport(options))
    expect(run.lines.ttftMs).toHaveLength(101)
    expect(run.goodAt.find(([times]) => times === 1)![1]).toBeCloseTo(run.report.good)
  })
})
