/**
 * Cost of forwarding a request: CPU per request and per paced token, added TTFT, and memory, in front of two trivial
 * upstreams. The upstream alone and other installed routers are measured in the same run.
 *
 *   npx tsx bench/forward.ts [--seconds 4] [--rounds 1] [--nginx [PATH]] [--vllm-router VENV] [--sglang-router VENV]
 *     [--cells n16,p128] [--json out.json]
 */
import { writeFileSync } from 'node:fs'
import {
  processTree,
  startBaton,
  startNginx,
  startNodeProxy,
  startRouter,
  startUpstream,
} from './forward/targets.ts'
import type { Target } from './forward/targets.ts'
import type { LoadSpec } from './load/load-client.ts'
import { load } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { cpuMicros, rssMegabytes } from './load/process-cpu.ts'
import { prompt } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '1' },
    nginx: { type: 'string' },
    'vllm-router': { type: 'string' },
    'sglang-router': { type: 'string' },
    cells: { type: 'string', default: 'n16,s1,l60k,p128' },
    json: { type: 'string' },
  },
})
const seconds = Number(values.seconds)
const wanted = new Set(values.cells.split(','))
const TOKENS = 64
const ITL_MS = 10
/** A program that is compiled just in time is measured after 10,000 requests and more. */
const WARMUP_SECONDS = 5

interface Cell {
  readonly name: string
  readonly concurrency: number
  readonly words: number
  readonly tokens: number
  readonly stream: boolean
  readonly paced: boolean
}

const CELLS: readonly Cell[] = [
  { name: 'n16', concurrency: 16, words: 100, tokens: 1, stream: false, paced: false },
  { name: 's1', concurrency: 1, words: 100, tokens: TOKENS, stream: true, paced: false },
  { name: 'l60k', concurrency: 4, words: 60_000, tokens: 8, stream: true, paced: false },
  { name: 'p128', concurrency: 128, words: 100, tokens: TOKENS, stream: true, paced: true },
]

interface Row {
  readonly target: string
  readonly cell: string
  readonly requestsPerSecond: number
  readonly cpuMicrosPerRequest: number
  readonly ttftMsP50: number
  readonly totalMsP50: number
  readonly megabytes: number
  readonly failures: number
}

function specOf(
  { concurrency, words, tokens, stream }: Cell,
  port: number,
  seed: number,
): LoadSpec {
  const bodies = Array.from({ length: words > 1000 ? 4 : 512 }, (_, index) =>
    JSON.stringify({
      model: 'storyteller',
      messages: [{ role: 'user', content: prompt(words, seed * 1000 + index) }],
      max_tokens: tokens,
      stream,
    }),
  )
  const path = '/v1/chat/completions'
  return { port, path, bodies, concurrency, seconds, requestsMax: 1_000_000, warmupRequests: 0 }
}

let seed = 0

async function measured(target: Target, cell: Cell, port = target.port): Promise<Row> {
  const spec = specOf(cell, port, ++seed)
  await load({ ...spec, seconds: WARMUP_SECONDS })
  const pids = target.pid === null ? [] : processTree(target.pid)
  const before = pids.map(cpuMicros)
  const result = await load(spec)
  const spent = pids.reduce((sum, pid, index) => sum + cpuMicros(pid) - (before[index] ?? 0), 0)
  const row: Row = {
    target: target.name,
    cell: cell.name,
    requestsPerSecond: (result.requests / result.elapsedMs) * 1000,
    cpuMicrosPerRequest: spent / Math.max(1, result.requests),
    ttftMsP50: result.ttftMs.p50,
    totalMsP50: result.totalMs.p50,
    megabytes: pids.reduce((sum, pid) => sum + rssMegabytes(pid), 0),
    failures: result.failures,
  }
  console.log(
    [
      row.target.padEnd(14),
      row.cell.padEnd(5),
      `${row.requestsPerSecond.toFixed(0)} req/s`.padStart(12),
      `${row.cpuMicrosPerRequest.toFixed(0)} µs/req`.padStart(13),
      `TTFT ${row.ttftMsP50.toFixed(2)} ms`.padStart(16),
      `total ${row.totalMsP50.toFixed(2)} ms`.padStart(17),
      `${row.megabytes.toFixed(0)} MB`.padStart(8),
      row.failures === 0 ? '' : `${row.failures} FAILED: ${result.firstFailure}`,
    ].join('  '),
  )
  return row
}

type Start = (ports: readonly number[]) => Promise<Target>

function targets(): readonly Start[] {
  const { nginx, 'vllm-router': vllm, 'sglang-router': sglang } = values
  return [
    startBaton,
    startNodeProxy,
    ...(nginx === undefined ? [] : [(ports: readonly number[]) => startNginx(nginx, ports)]),
    ...(vllm === undefined
      ? []
      : [(ports: readonly number[]) => startRouter('vllm-router', vllm, ports)]),
    ...(sglang === undefined
      ? []
      : [(ports: readonly number[]) => startRouter('sglang-router', sglang, ports)]),
  ]
}

/** Paced and unpaced upstreams are different processes; a router is in front of two of one kind. */
async function round(isPaced: boolean): Promise<Row[]> {
  const upstreams = await Promise.all([
    startUpstream(isPaced ? ITL_MS : 0),
    startUpstream(isPaced ? ITL_MS : 0),
  ])
  const cells = CELLS.filter(({ name, paced }) => paced === isPaced && wanted.has(name))
  if (cells.length === 0) return []
  const rows: Row[] = []
  const [direct] = upstreams
  for (const cell of cells) rows.push(await measured(direct as Target, cell))
  for (const start of targets()) {
    const target = await start(upstreams.map(({ port }) => port))
    // When a process is asked for paced tokens the second time, its code has been compiled.
    if (isPaced) await load({ ...specOf(CELLS[0] as Cell, target.port, ++seed), seconds: 3 })
    for (const cell of cells) rows.push(await measured(target, cell))
    await target.stop()
  }
  for (const upstream of upstreams) await upstream.stop()
  return rows
}

const rows: Row[] = []
for (let count = 0; count < Number(values.rounds); count++) {
  rows.push(...(await round(false)), ...(await round(true)))
}

function best(target: string, cell: string, of: (row: Row) => number): number {
  return Math.min(...rows.filter((row) => row.target === target && row.cell === cell).map(of))
}

for (const name of new Set(rows.map(({ target }) => target))) {
  if (name === 'direct') continue
  const micros = (cell: string): number => best(name, cell, (row) => row.cpuMicrosPerRequest)
  const added = (cell: string): string => {
    const ttft = (target: string): number => best(target, cell, (row) => row.ttftMsP50)
    return `TTFT + ${(ttft(name) - ttft('direct')).toFixed(2)} ms`
  }
  const memory = rows.filter(({ target }) => target === name).map(({ megabytes }) => megabytes)
  const perToken = (micros('p128') - micros('n16')) / TOKENS
  const parts = [
    wanted.has('n16') ? `${micros('n16').toFixed(0)} µs per request` : '',
    wanted.has('n16') && wanted.has('p128') ? `${perToken.toFixed(1)} µs per paced token` : '',
    wanted.has('s1') ? added('s1') : '',
    wanted.has('l60k') ? `60,000 words: ${added('l60k')}, ${micros('l60k').toFixed(0)} µs` : '',
    `${Math.max(...memory).toFixed(0)} MB at most`,
  ]
  console.log(`${name}: ${parts.filter((part) => part !== '').join(', ')}`)
}
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(rows, null, 2))
