/**
 * One case of `bench/sim.ts`: a fleet in this process, one line of figures.
 *
 * Arguments: the number of workers or `faults`, then the options of `bench/sim.ts` as JSON.
 */
import { readFileSync } from 'node:fs'
import { settle } from '../../src/os/index.ts'
import { parseTrace, runFleet } from '../../src/sim/index.ts'
import type { FleetConfig, TraceRequest } from '../../src/sim/index.ts'
import { faultyFleet } from '../../test/fixtures/faulty-fleet.ts'
import { madeUpTrace } from './made-up-trace.ts'

export interface CaseOptions {
  readonly trace?: string
  readonly limit: number
  readonly faults: number
  readonly mode: 'kv' | 'round-robin' | 'least-loaded'
}

function readTrace({ trace, limit }: CaseOptions): TraceRequest[] {
  if (trace === undefined) return madeUpTrace(Math.min(limit || Infinity, 12_000), 1)
  return parseTrace(readFileSync(trace, 'utf8'), { limit: limit || Infinity, spread: true })
}

async function runCase(name: string, config: FleetConfig): Promise<void> {
  const [began, beganMs] = [process.cpuUsage(), performance.now()]
  const report = await runFleet(config)
  const wallSeconds = (performance.now() - beganMs) / 1000
  const { user, system } = process.cpuUsage(began)
  const cpuSeconds = (user + system) / 1e6
  const requests = config.trace.length
  const cells = [
    name.padEnd(22),
    `${requests} requests in ${cpuSeconds.toFixed(1)} s of CPU (${wallSeconds.toFixed(1)} s)`,
    `${(requests / cpuSeconds).toFixed(0)} requests/CPU s`,
    `${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MiB`,
    `completed ${report.completed}, reuse ${(100 * report.blockReuse).toFixed(2)} %, mean TTFT ${report.ttftMs.mean.toFixed(2)} ms`,
  ]
  console.log(cells.join('  '))
}

async function runFaults({ faults }: CaseOptions): Promise<void> {
  const kinds = ['aggregated', 'disaggregated', 'mixed'] as const
  for (const [index, kind] of kinds.entries())
    await runCase(`faults, ${kind}`, faultyFleet(kind, index + 1, faults))
}

const [only = '10', json = ''] = process.argv.slice(2)
const options = JSON.parse(json) as CaseOptions
if (only === 'faults') await runFaults(options)
else {
  await runCase(`${only} workers`, {
    workers: [{ mode: 'agg', count: Number(only) }],
    trace: readTrace(options),
    router: { mode: options.mode },
    settle,
  })
}
