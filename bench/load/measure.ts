/**
 * One measurement: a workload against a server, with the CPU time of each of its processes.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { RunningServer } from '../../test/running-server.ts'
import type { LoadResult, LoadSpec } from './load-client.ts'
import { cpuMicros, cpuTimes, rssMegabytes } from './process-cpu.ts'
import { WARM_UP } from './workloads.ts'
import type { Workload } from './workloads.ts'

export interface Row {
  readonly topology: string
  readonly workload: string
  readonly requestsPerSecond: number
  readonly tokensPerSecond: number
  readonly frontendMicrosPerRequest: number
  /** The kernel's part of it. */
  readonly frontendSystemMicrosPerRequest: number
  readonly workersMicrosPerRequest: number
  readonly ttftMsP50: number
  readonly ttftMsP99: number
  readonly itlMsP50: number
  readonly itlMsP99: number
  readonly frontendMegabytes: number
  readonly failures: number
  readonly firstFailure: string | null
}

/**
 * A warm-up, then the measured `seconds`.
 *
 * A paced workload has few requests per second. Without many short ones before it, the measurement would be of a
 * process whose code is still being compiled, which is true for a server only in its first minute.
 */
export async function measure(
  topology: string,
  server: RunningServer,
  workload: Workload,
  seconds: number,
  /** Called between the warm-up and the measured part. */
  onWarm: () => Promise<unknown> = () => Promise.resolve(),
): Promise<Row> {
  if (workload.paced) {
    await load({ ...specOf(server.port, WARM_UP), seconds: 15, requestsMax: 20_000 })
  }
  await load({ ...specOf(server.port, workload), seconds: 5, requestsMax: 20_000 })
  await onWarm()
  const pids = [server.frontendPid, ...server.workerPids]
  const before = pids.map(cpuMicros)
  const systemBefore = cpuTimes(server.frontendPid).systemMicros
  const result = await load({ ...specOf(server.port, workload), seconds })
  const spent = pids.map((pid, index) => cpuMicros(pid) - (before[index] ?? 0))
  const system = cpuTimes(server.frontendPid).systemMicros - systemBefore
  const requests = Math.max(1, result.requests)
  return {
    topology,
    workload: workload.name,
    requestsPerSecond: (result.requests / result.elapsedMs) * 1000,
    tokensPerSecond: ((result.requests * workload.tokens) / result.elapsedMs) * 1000,
    frontendMicrosPerRequest: (spent[0] ?? 0) / requests,
    frontendSystemMicrosPerRequest: system / requests,
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

/** Frontend µs per streamed token: the additional cost of many tokens over one, divided by the tokens in between. */
export function microsPerToken(
  rows: readonly Row[],
  topology: string,
  workload: Workload,
  part: 'frontendMicrosPerRequest' | 'frontendSystemMicrosPerRequest' = 'frontendMicrosPerRequest',
): number | null {
  const cost = (name: string): number | undefined =>
    rows.find((row) => row.topology === topology && row.workload === name)?.[part]
  const [one, many] = [cost('s16x1'), cost(workload.name)]
  return one === undefined || many === undefined ? null : (many - one) / (workload.tokens - 1)
}

export function printRow(row: Row): void {
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

/** The baseline: a bare node:http server that writes the same bytes and does nothing else. */
export function startBareServer(nodeArgs: readonly string[] = []): Promise<RunningServer> {
  return startPrinter([...nodeArgs, BARE_SERVER, '6'])
}

/** The same, with `workers` processes that send each token, one every `itlMs` per stream. */
export function startBareFrontend(itlMs: number, workers: number): Promise<RunningServer> {
  return startPrinter([BARE_FRONTEND, `${itlMs}`, `${workers}`])
}

/** A server that prints its port and nothing else. */
async function startPrinter(args: readonly string[]): Promise<RunningServer> {
  const child = spawn(process.execPath, ['--import', 'tsx', ...args], {
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

const SEEDS_PER_LOAD = 10_000_000
let loads = 0

/** Every load has prompts that no earlier one had. */
export function specOf(port: number, { asked, concurrency }: Workload): LoadSpec {
  const bodies = { asked, firstSeed: ++loads * SEEDS_PER_LOAD }
  const path = '/v1/chat/completions'
  return { port, path, bodies, concurrency, seconds: 1, requestsMax: 1_000_000, warmupRequests: 0 }
}

const BARE_FRONTEND = fileURLToPath(new URL('./bare-frontend.ts', import.meta.url))
const BARE_SERVER = fileURLToPath(new URL('./bare-server.ts', import.meta.url))
const LOAD_CLIENT = fileURLToPath(new URL('./load-client.ts', import.meta.url))

/** Runs the load generator in a separate process. */
export function load(spec: LoadSpec): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', LOAD_CLIENT], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let printed = ''
    child.stdin.end(JSON.stringify(spec))
    child.stdout.on('data', (bytes: Buffer) => {
      printed += bytes.toString()
    })
    child.once('exit', (code) => {
      if (code === 0) resolve(JSON.parse(printed) as LoadResult)
      else reject(new Error(`the load generator ended with ${code}`))
    })
  })
}
