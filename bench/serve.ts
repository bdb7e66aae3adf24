/**
 * What serving costs: TTFT, ITL, tokens/s, req/s and CPU µs per request and per streamed token, of the frontend process
 * and of the workers, aggregated and disaggregated, beside a bare node:http server that writes the same bytes.
 *
 *   npx tsx bench/serve.ts [--seconds 5] [--json out.json] [--only s16x1,p64] [--engine sim|llamacpp]
 *
 * The workloads and the reference figures are those of Dynamo 1.6.1 on such a machine (two cores, shared with the load
 * generator): docs/performance.md. CPU is the operating system's own accounting of each process.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { LoadResult, LoadSpec } from './load/load-client.ts'
import { cpuMicros, rssMegabytes } from './load/process-cpu.ts'
import { startServer } from '../test/running-server.ts'
import type { RunningServer } from '../test/running-server.ts'
import { WORKLOADS } from './load/workloads.ts'
import type { Workload } from './load/workloads.ts'

interface Row {
  readonly topology: string
  readonly workload: string
  readonly requestsPerSecond: number
  readonly tokensPerSecond: number
  readonly frontendMicrosPerRequest: number
  readonly workersMicrosPerRequest: number
  readonly ttftMsP50: number
  readonly ttftMsP99: number
  readonly itlMsP50: number
  readonly itlMsP99: number
  readonly frontendMegabytes: number
  readonly failures: number
  readonly firstFailure: string | null
}

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    json: { type: 'string' },
    only: { type: 'string' },
    engine: { type: 'string', default: 'sim' },
  },
})

const TOPOLOGIES: Readonly<Record<string, readonly string[]>> = {
  aggregated: ['--aggregated', '2'],
  disaggregated: ['--prefill', '1', '--decode', '1'],
}

function serverArgs(topology: string, workload: Workload): string[] {
  const engine =
    values.engine === 'sim'
      ? [
          '--engine',
          'sim',
          '--sim-speedup',
          workload.paced ? '1' : '0',
          '--context-length',
          '131072',
          '--sequences',
          '1024',
        ]
      : []
  return [...(TOPOLOGIES[topology] ?? []), ...engine]
}

async function measure(topology: string, server: RunningServer, workload: Workload): Promise<Row> {
  const seconds = Number(values.seconds)
  await load({ ...specOf(server.port, workload), seconds: 1, requestsMax: 200, warmupRequests: 0 })
  const before = [server.frontendPid, ...server.workerPids].map(cpuMicros)
  const result = await load({ ...specOf(server.port, workload), seconds })
  const after = [server.frontendPid, ...server.workerPids].map(cpuMicros)
  const spent = after.map((micros, index) => micros - (before[index] ?? 0))
  const requests = Math.max(1, result.requests)
  return {
    topology,
    workload: workload.name,
    requestsPerSecond: (result.requests / result.elapsedMs) * 1000,
    tokensPerSecond: ((result.requests * workload.tokens) / result.elapsedMs) * 1000,
    frontendMicrosPerRequest: (spent[0] ?? 0) / requests,
    workersMicrosPerRequest: spent.slice(1).reduce((sum, micros) => sum + micros, 0) / requests,
    ttftMsP50: result.ttftMs.p50,
    ttftMsP99: result.ttftMs.p99,
    itlMsP50: result.itlMs.p50,
    itlMsP99: result.itlMs.p99,
    frontendMegabytes: rssMegabytes(server.frontendPid),
    failures: result.failures,
    firstFailure: result.firstFailure,
  }
}

function specOf(port: number, workload: Workload): LoadSpec {
  return {
    port,
    path: '/v1/chat/completions',
    bodies: workload.bodies,
    concurrency: workload.concurrency,
    seconds: 1,
    requestsMax: 1_000_000,
    warmupRequests: 0,
  }
}

const LOAD_CLIENT = fileURLToPath(new URL('./load/load-client.ts', import.meta.url))

function load(spec: LoadSpec): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', LOAD_CLIENT], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    child.stdin.end(JSON.stringify(spec))
    let printed = ''
    child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    child.once('exit', (code) => {
      if (code === 0) resolve(JSON.parse(printed) as LoadResult)
      else reject(new Error(`the load generator ended with ${code}`))
    })
  })
}

function perToken(rows: readonly Row[], topology: string): void {
  const cost = (workload: string): number | undefined =>
    rows.find((row) => row.topology === topology && row.workload === workload)
      ?.frontendMicrosPerRequest
  const one = cost('s16x1')
  if (one === undefined) return
  for (const workload of WORKLOADS.filter(({ tokens }) => tokens >= 256)) {
    const many = cost(workload.name)
    if (many === undefined) continue
    const micros = (many - one) / (workload.tokens - 1)
    console.log(
      `${topology}: frontend ${micros.toFixed(1)} µs per streamed token (${workload.name} against s16x1)`,
    )
  }
}

function print(row: Row): void {
  const fixed = (value: number, digits = 0): string => value.toFixed(digits)
  console.log(
    [
      row.topology.padEnd(14),
      row.workload.padEnd(8),
      `${fixed(row.requestsPerSecond)} req/s`.padStart(11),
      `${fixed(row.tokensPerSecond)} tok/s`.padStart(13),
      `frontend ${fixed(row.frontendMicrosPerRequest)} µs/req`.padStart(22),
      `workers ${fixed(row.workersMicrosPerRequest)} µs/req`.padStart(21),
      `TTFT ${fixed(row.ttftMsP50, 1)}/${fixed(row.ttftMsP99, 1)} ms`.padStart(20),
      `ITL ${fixed(row.itlMsP50, 2)}/${fixed(row.itlMsP99, 2)} ms`.padStart(20),
      `${fixed(row.frontendMegabytes)} MB`.padStart(7),
      row.failures === 0 ? '' : `${row.failures} FAILED: ${row.firstFailure}`,
    ].join('  '),
  )
}

/** The floor: a bare node:http server that writes the same bytes, for the workloads where that means something. */
async function startBare(): Promise<RunningServer> {
  const child = spawn(process.execPath, ['--import', 'tsx', BARE_SERVER, '6'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const port = await new Promise<number>((resolve) => {
    child.stdout.once('data', (bytes: Buffer) => resolve(Number(bytes.toString())))
  })
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    frontendPid: child.pid ?? 0,
    workerPids: [],
    process: child,
    printed: () => '',
    stop: async () => {
      child.kill('SIGKILL')
      return await Promise.resolve(0)
    },
  }
}

const BARE_SERVER = fileURLToPath(new URL('./load/bare-server.ts', import.meta.url))
const BARE_WORKLOADS = ['n16', 's16x1', 'p64']

const chosen = values.only?.split(',')
const rows: Row[] = []
const bare = await startBare()
for (const workload of WORKLOADS.filter(({ name }) => BARE_WORKLOADS.includes(name))) {
  const row = await measure('bare', bare, workload)
  rows.push(row)
  print(row)
}
await bare.stop()
perToken(rows, 'bare')
for (const topology of Object.keys(TOPOLOGIES)) {
  for (const paced of [false, true]) {
    const workloads = WORKLOADS.filter(
      (workload) =>
        workload.paced === paced && (chosen === undefined || chosen.includes(workload.name)),
    )
    const [first] = workloads
    if (first === undefined) continue
    const server = await startServer(serverArgs(topology, first))
    try {
      for (const workload of workloads) {
        const row = await measure(topology, server, workload)
        rows.push(row)
        print(row)
      }
    } finally {
      await server.stop()
    }
  }
  perToken(rows, topology)
}
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(rows, null, 2))
