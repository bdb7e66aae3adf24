/**
 * Quality of routing decisions: one trace, every routing mode, with memory for all KV and with far too little. The real
 * router in front of simulated workers, in virtual time. Prints one table.
 *
 *   npx tsx bench/quality.ts conversation_trace.jsonl [--limit 3000] [--workers 8] [--speedup 1] [--ample 262144]
 *     [--scarce 8192] [--modes kv,round-robin,random,least-loaded,power-of-two]
 *     [--options '{"prefillLoadScale":1}'] [--event-delay 1] [--json]
 *
 * A trace has one JSON object per line (timestamp, input_length, output_length, hash_ids); without one a generated
 * workload is used. Requests with the same timestamp are spread up to the next one. `--limit 0` uses all requests.
 *
 * Reuse is counted in blocks of 512 tokens, each weighted by the share of its tokens that was found. "ideal" is the
 * reuse of an infinite cache, "one cache" that of a single LRU cache as large as all workers together.
 */
import { readFileSync } from 'node:fs'
import { settle } from '../src/os/index.ts'
import { idealReuse, parseTrace, runFleet, TRACE_BLOCK_TOKENS } from '../src/sim/index.ts'
import type { FleetReport, TraceRequest } from '../src/sim/index.ts'
import type { RouterOptions } from '../src/router/index.ts'
import { readOptions } from './load/options.ts'
import { madeUpTrace } from './sim/made-up-trace.ts'

const { values, positionals } = readOptions({
  allowPositionals: true,
  options: {
    limit: { type: 'string', default: '3000' },
    workers: { type: 'string', default: '8' },
    speedup: { type: 'string', default: '1' },
    ample: { type: 'string', default: '262144' },
    scarce: { type: 'string', default: '8192' },
    modes: { type: 'string', default: 'kv,round-robin,random,least-loaded,power-of-two' },
    options: { type: 'string', default: '{}' },
    'event-delay': { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  },
})

/** TTFT and mean ITL of a good request. */
const GOAL = { ttftMs: 2000, tpotMs: 25 }
const BLOCK_TOKENS = 64
/** The capacity for which the built-in decode time was fitted; see `timingOf`. */
const FITTED_BLOCKS = 16_384

function readTrace(): TraceRequest[] {
  const limit = Number(values.limit) || Infinity
  const [path] = positionals
  if (path !== undefined) {
    const options = { limit, arrivalSpeedup: Number(values.speedup), spread: true }
    return parseTrace(readFileSync(path, 'utf8'), options)
  }
  return madeUpTrace(Math.min(limit, 10_000), Number(values.speedup))
}

/**
 * The built-in decode time depends on the share of the memory that contexts fill. Here the same contexts take the
 * same time whatever the memory, so that only the cache differs between the halves of the table.
 */
function timingOf(blockCount: number): { kind: 'polynomial'; decode: number[] } {
  const scale = blockCount / FITTED_BLOCKS
  return { kind: 'polynomial', decode: [5.74, 54.01 * scale, -25.74 * scale * scale] }
}

/** Reuse of one LRU cache of this many blocks of the trace. */
function reuseOfOneCache(trace: readonly TraceRequest[], capacity: number): number {
  const cached = new Set<number>()
  let [hits, total] = [0, 0]
  for (const { hashIds } of trace) {
    let isPrefix = true
    for (const id of hashIds) {
      isPrefix &&= cached.has(id)
      if (isPrefix) hits += 1
    }
    total += hashIds.length
    // The beginnings of prompts are evicted last.
    for (const id of hashIds.toReversed()) {
      cached.delete(id)
      cached.add(id)
    }
    for (const id of cached) {
      if (cached.size <= capacity) break
      cached.delete(id)
    }
  }
  return total === 0 ? 0 : hits / total
}

const percent = (share: number, digits = 2): string => (100 * share).toFixed(digits)

function row(mode: string, report: FleetReport, ideal: number): string {
  const { ttftMs, itlMs } = report
  const cells = [
    mode,
    percent(report.blockReuse),
    percent(report.blockReuse / ideal, 1),
    [ttftMs.mean, ttftMs.p50, ttftMs.p99].map((ms) => ms.toFixed(0)).join(' / '),
    [itlMs.mean, itlMs.p50, itlMs.p99].map((ms) => ms.toFixed(2)).join(' / '),
    report.e2eMs.mean.toFixed(0),
    `${report.goodputPerSecond.toFixed(3)} (${percent(report.good)})`,
  ]
  return `| ${cells.join(' | ')} |`
}

const trace = readTrace()
const workers = Number(values.workers)
const ideal = idealReuse(trace)
const extra = JSON.parse(values.options) as RouterOptions
const beganMs = performance.now()
const all: Record<string, FleetReport> = {}
const print = (line: string): void => {
  if (!values.json) console.log(line)
}

print(`${trace.length} requests on ${workers} workers, ideal reuse ${percent(ideal)} % of blocks;`)
print(`good: TTFT <= ${GOAL.ttftMs} ms and mean ITL <= ${GOAL.tpotMs} ms; router ${values.options}`)
for (const memory of ['ample', 'scarce'] as const) {
  const blockCount = Number(values[memory])
  const inTrace = (workers * blockCount * BLOCK_TOKENS) / TRACE_BLOCK_TOKENS
  const bound = percent(reuseOfOneCache(trace, inTrace))
  print(
    `\nmemory ${memory}: ${blockCount} blocks of ${BLOCK_TOKENS} per worker; one cache: ${bound} %\n`,
  )
  print(
    '| mode | reuse % | of ideal % | TTFT mean / p50 / p99 ms | ITL mean / p50 / p99 ms | E2E mean ms | good/s (%) |',
  )
  print('|---|---|---|---|---|---|---|')
  for (const mode of values.modes.split(',')) {
    const report = await runFleet({
      workers: [
        {
          mode: 'agg',
          count: workers,
          engine: { blockCount, blockTokens: BLOCK_TOKENS, timing: timingOf(blockCount) },
        },
      ],
      trace,
      router: {
        ...extra,
        mode: mode as NonNullable<RouterOptions['mode']>,
        // All requests wait, because refused requests would make the others look faster.
        deadlines: { overloadWaitMs: 0, queueMs: 0, ...extra.deadlines },
      },
      goal: GOAL,
      settle,
      eventDelayMs: Number(values['event-delay']),
    })
    all[`${memory} ${mode}`] = report
    print(row(mode, report, ideal))
  }
}
print(`\n${((performance.now() - beganMs) / 1000).toFixed(1)} s`)
if (values.json) console.log(JSON.stringify(all, null, 2))
