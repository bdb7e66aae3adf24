/**
 * Benefit of KV-aware routing and disaggregation for a fleet: the real router in front of simulated workers, the same
 * requests for each configuration, in virtual time.
 *
 *   npx tsx bench/fleet.ts [--trace conversation_trace.jsonl] [--limit 2000] [--workers 8] [--speedup 1] [--spread] [--json]
 *
 * A trace has one JSON object per line (timestamp, input_length, output_length, hash_ids). Without a trace a generated
 * workload with shared prefixes is used.
 */
import { readFileSync } from 'node:fs'
import { settle } from '../src/os/index.ts'
import { formatFleetReport, idealReuse, parseTrace, runFleet } from '../src/sim/index.ts'
import type { FleetConfig, TraceRequest } from '../src/sim/index.ts'
import { readOptions } from './load/options.ts'
import { madeUpTrace } from './sim/made-up-trace.ts'

const { values } = readOptions({
  options: {
    trace: { type: 'string' },
    limit: { type: 'string', default: '2000' },
    workers: { type: 'string', default: '8' },
    speedup: { type: 'string', default: '1' },
    spread: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
})

function readTrace(): TraceRequest[] {
  const limit = Number(values.limit)
  if (values.trace !== undefined) {
    const text = readFileSync(values.trace, 'utf8')
    return parseTrace(text, {
      limit,
      arrivalSpeedup: Number(values.speedup),
      spread: values.spread,
    })
  }
  return madeUpTrace(limit, Number(values.speedup))
}

/** KV of an 8B model, over 100 Gbit/s. */
const TRANSFER = { kvBytesPerToken: 131_072, kvTransferBandwidth: 12.5 }
const count = Number(values.workers)
const half = Math.max(1, Math.floor(count / 2))

const WAYS: Readonly<Record<string, Pick<FleetConfig, 'workers' | 'router'>>> = {
  'aggregated, in turn': {
    workers: [{ mode: 'agg', count }],
    router: { mode: 'round-robin' },
  },
  'aggregated, least loaded': {
    workers: [{ mode: 'agg', count }],
    router: { mode: 'least-loaded' },
  },
  'aggregated, KV-aware': { workers: [{ mode: 'agg', count }], router: { mode: 'kv' } },
  'prefill + decode, KV-aware': {
    workers: [
      { mode: 'prefill', count: half, engine: TRANSFER },
      { mode: 'decode', count: count - half, engine: TRANSFER },
    ],
    router: { mode: 'kv' },
  },
}

const trace = readTrace()
if (!values.json) {
  const ideal = (100 * idealReuse(trace)).toFixed(2)
  console.log(`${trace.length} requests, ${ideal} % of their blocks seen before\n`)
}
const reports: Record<string, unknown> = {}
for (const [name, way] of Object.entries(WAYS)) {
  const beganMs = performance.now()
  // All requests wait, because refused requests would make the others look faster.
  const router = { ...way.router, deadlines: { overloadWaitMs: 0, queueMs: 0 } }
  const goal = { ttftMs: 2000, tpotMs: 20 }
  const report = await runFleet({ ...way, router, settle, trace, goal })
  const seconds = (performance.now() - beganMs) / 1000
  reports[name] = report
  if (!values.json) console.log(`${name} (${seconds.toFixed(1)} s)\n${formatFleetReport(report)}\n`)
}
if (values.json) console.log(JSON.stringify(reports, null, 2))
