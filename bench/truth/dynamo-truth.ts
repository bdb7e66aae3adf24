/**
 * The laboratory against Dynamo's own replay: the same requests, engine and timing (both use the reference's
 * defaults), requests distributed in turn, so that no router is compared. Python: one with the package `ai-dynamo`.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Distribution } from '../../src/sim/index.ts'
import type { TruthRow } from './compare-runs.ts'
import { baton } from './run-load.ts'
import type { TruthOptions } from './run-load.ts'

interface Seen {
  readonly ttftMs: number
  readonly e2eMs: number
  readonly tokens: number
}

interface DynamoRow {
  readonly first_token_ms: number
  readonly ttft_ms: number
  readonly e2e_latency_ms: number
  readonly output_length: number
}

const WORKERS = '8'
const WORKLOADS: readonly (readonly [name: string, workload: readonly string[]])[] = [
  ['chat', ['chat', '--requests', '1000', '--rate', '20']],
  ['rag', ['rag', '--requests', '1000', '--rate', '8']],
  ['bursts', ['bursts', '--requests', '1000', '--rate', '40']],
]

const REPLAY = `
import json, sys
from dynamo.replay import api
trace, block_size, workers, out = sys.argv[1:]
report = api.run_trace_replay(trace, extra_engine_args={}, num_workers=int(workers), router_mode="round_robin",
                              trace_block_size=int(block_size), capture_per_request=True)
with open(out, "w") as file:
    json.dump([dict(row) for row in report.per_request], file, default=str)
`

export async function dynamoTruth(options: TruthOptions): Promise<TruthRow[]> {
  const { dynamo, folder } = options
  if (dynamo === undefined) {
    console.log('\ndynamo: left out; --dynamo PYTHON names a Python that has ai-dynamo')
    return []
  }
  const rows: TruthRow[] = []
  for (const [name, workload] of WORKLOADS) {
    const trace = join(folder, `${name}.jsonl`)
    await baton(['workload', ...workload, '--seed', '5', '--out', trace])
    rows.push(...(await compare(options, { name, trace, blockTokens: 64 })))
  }
  if (options.trace !== undefined)
    rows.push(
      ...(await compare(options, { name: 'trace', trace: options.trace, blockTokens: 512 })),
    )
  return rows
}

async function compare(
  { dynamo, folder }: TruthOptions,
  load: { readonly name: string; readonly trace: string; readonly blockTokens: number },
): Promise<TruthRow[]> {
  const out = join(folder, 'dynamo.json')
  const script = join(folder, 'replay.py')
  writeFileSync(script, REPLAY)
  execFileSync(dynamo!, [script, load.trace, String(load.blockTokens), WORKERS, out], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, DYN_LOG: 'error' },
  })
  const theirs = (JSON.parse(readFileSync(out, 'utf8')) as DynamoRow[]).map((row) => ({
    ttftMs: row.ttft_ms,
    e2eMs: row.e2e_latency_ms,
    tokens: row.output_length,
  }))
  const requests = join(folder, 'requests.jsonl')
  const fleet = ['--aggregated', WORKERS, '--router-mode', 'round-robin', '--quiet']
  await baton(['replay', load.trace, ...fleet, '--requests', requests])
  const ours = readFileSync(requests, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Seen)
  return rowsOf(load.name, theirs, ours)
}

function rowsOf(load: string, theirs: readonly Seen[], ours: readonly Seen[]): TruthRow[] {
  const summary = (all: readonly Seen[], pick: (seen: Seen) => number) => {
    const values = new Distribution()
    for (const seen of all) values.add(pick(seen))
    return values.summary()
  }
  const itl = ({ ttftMs, e2eMs, tokens }: Seen): number => (e2eMs - ttftMs) / (tokens - 1)
  const picks = [
    ['TTFT', theirs, ours, ({ ttftMs }: Seen) => ttftMs],
    ['TPOT', theirs.filter(isLong), ours.filter(isLong), itl],
    ['E2E', theirs, ours, ({ e2eMs }: Seen) => e2eMs],
  ] as const
  return picks.flatMap(([name, a, b, pick]) => {
    const [measured, simulated] = [summary(a, pick), summary(b, pick)]
    return (['p50', 'p99'] as const).map((share) => ({
      load: `${load} (${ours.length} requests)`,
      metric: `${name} ${share} ms`,
      measured: measured[share],
      simulated: simulated[share],
      limit: 0.01,
    }))
  })
}

function isLong({ tokens }: Seen): boolean {
  return tokens > 1
}
