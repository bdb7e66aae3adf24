/**
 * What more than one frontend brings and costs: CPU per request of each process, rate and latency behind one port with 1
 * and 2 frontends, and what a frontend costs per 100 idle workers (memory, CPU).
 *
 *   npm run build && npx tsx bench/frontends.ts [--seconds 8] [--rounds 5] [--warm-up 8000] [--workers 100]
 *     [--streams 128] [--words N] [--tokens 64]
 *
 * With `--words 2000 --tokens 2` nearly all work is the frontend's. `bound`: the rate that two free cores allow, from the
 * CPU time per request; with one frontend it is at most what one core of a frontend serves. Threads of a frontend (garbage
 * collection, tokenizers) can use the other core, so the bound for one frontend is a little too low.
 *
 * Both servers are up and warm before anything counts, and rounds of the two take turns: what else runs on the machine
 * meets both. The rate at equal CPU is what a second of CPU time of all processes together serves, so it does not depend on
 * how many cores were free.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FileDiscovery } from '../src/discovery/index.ts'
import { HostedWorker } from '../src/host/index.ts'
import { osClock } from '../src/os/index.ts'
import { SimEngine } from '../src/simengine/index.ts'
import { startBaton } from '../test/running-server.ts'
import { MeasuredFleet } from './load/fleet-cpu.ts'
import type { FleetRun } from './load/fleet-cpu.ts'
import { readOptions } from './load/options.ts'
import { cpuMicros, rssMegabytes } from './load/process-cpu.ts'
import { median } from './load/summary.ts'
import { WORKLOADS } from './load/workloads.ts'
import type { Workload } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    seconds: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '5' },
    'warm-up': { type: 'string', default: '8000' },
    workers: { type: 'string', default: '100' },
    streams: { type: 'string', default: '128' },
    words: { type: 'string' },
    tokens: { type: 'string', default: '64' },
  },
})
const seconds = Number(values.seconds)
const rounds = Number(values.rounds)
const workerCount = Number(values.workers)
const SIM = ['--engine', 'sim', '--sequences', '1024', '--aggregated', '1', '--sim-speedup', '0']

/** By default 128 streams of 64 tokens at once. */
const STREAMS = ((): Workload => {
  const s128 = WORKLOADS.find(({ name }) => name === 's128') as Workload
  const tokens = Number(values.tokens)
  const words = Number(values.words ?? s128.asked.words)
  const asked = { ...s128.asked, words, tokens }
  return { ...s128, concurrency: Number(values.streams), tokens, asked }
})()

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

type Medians = { readonly [name in keyof FleetRun]: number }

function medians(runs: readonly FleetRun[]): Medians {
  const names = Object.keys(runs[0] ?? {}) as (keyof FleetRun)[]
  const pairs = names.map((name) => [name, median(runs.map((run) => run[name]))] as const)
  return Object.fromEntries(pairs) as Medians
}

function cpuPerRequest({ frontends, workers, parent, clients }: Medians): number {
  return frontends + workers + parent + clients
}

/** Requests per second of two cores, one for each frontend. */
function boundOf(run: Medians, index: number): number {
  return Math.min((index + 1) / run.frontends, 2 / cpuPerRequest(run)) * 1e6
}

async function compareFrontends(): Promise<void> {
  const fleets = [await MeasuredFleet.start(1, SIM), await MeasuredFleet.start(2, SIM)]
  try {
    for (const fleet of fleets) await fleet.warmUp(STREAMS, Number(values['warm-up']))
    const runs = fleets.map((): FleetRun[] => [])
    for (let round = 0; round < rounds; round++) {
      for (const [index, fleet] of fleets.entries()) {
        runs[index]?.push(await fleet.run(STREAMS, seconds))
      }
    }
    const [one, two] = runs.map(medians) as [Medians, Medians]
    print(1, one)
    print(2, two)
    const bounds = [one, two].map(boundOf)
    console.log(
      `bound on two free cores: ${bounds.map((rate) => rate.toFixed(0)).join(' and ')} requests/s, ratio ${(bounds[1]! / bounds[0]!).toFixed(2)}`,
    )
    const ratio = (a: number, b: number): string => (a / b).toFixed(2)
    console.log(
      `2 frontends / 1: rate ${ratio(two.requestsPerSecond, one.requestsPerSecond)}, rate at equal CPU of all processes ${ratio(cpuPerRequest(one), cpuPerRequest(two))}, CPU of frontends per request ${ratio(two.frontends, one.frontends)}, of the worker ${ratio(two.workers, one.workers)}`,
    )
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.stop()))
  }
}

function print(frontends: number, run: Medians): void {
  const micros = (name: 'frontends' | 'workers' | 'parent' | 'clients'): string =>
    `${name} ${run[name].toFixed(0)}`
  console.log(
    `${frontends} frontend(s)  ${run.requestsPerSecond.toFixed(0)} requests/s with ${run.coresUsed.toFixed(2)} cores  TTFT p50 ${run.ttftMsP50.toFixed(1)} ms p99 ${run.ttftMsP99.toFixed(1)} ms  failures ${run.failures}  CPU µs per request: ${(['frontends', 'workers', 'parent', 'clients'] as const).map(micros).join(', ')}, all ${cpuPerRequest(run).toFixed(0)} (${(1e6 / cpuPerRequest(run)).toFixed(0)} requests per CPU second)`,
  )
}

/** Connected and idle workers cost memory, pings and scans of the discovery folder. */
async function costOfWorkers(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'baton-bench-'))
  const discovery = new FileDiscovery({ folder })
  const workers: HostedWorker[] = []
  const frontend = await startBaton(
    ['frontend', '--discovery', `file:${folder}`, '--port', '0'],
    /http:\/\/[\d.]+:\d+/,
  )
  const pid = frontend.process.pid ?? 0
  const state = async (): Promise<{ megabytes: number; cpuPercent: number }> => {
    await sleep(3_000)
    const before = cpuMicros(pid)
    await sleep(5_000)
    return { megabytes: rssMegabytes(pid), cpuPercent: (cpuMicros(pid) - before) / 5e4 }
  }
  try {
    const idle = await state()
    for (let count = 0; count < workerCount; count++) {
      const worker = new HostedWorker({
        engine: new SimEngine({ clock: osClock, model: 'sim' }),
        engineName: 'sim',
        mode: 'agg',
        plane: { kind: 'tcp', host: '127.0.0.1', port: 0 },
        discovery,
        version: '0',
        shutdown: { routerGraceMs: 0 },
      })
      workers.push(worker)
      await worker.start()
    }
    const full = await state()
    const per100 = 100 / workerCount
    console.log(
      `a frontend per 100 idle workers: ${((full.megabytes - idle.megabytes) * per100).toFixed(1)} MB, ${((full.cpuPercent - idle.cpuPercent) * per100).toFixed(2)} % of a core (folder on one machine)`,
    )
  } finally {
    frontend.process.kill('SIGKILL')
    await Promise.all(workers.map((worker) => worker.stop()))
    await discovery.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

await compareFrontends()
await costOfWorkers()
