/**
 * What more than one frontend brings and costs: requests per second and latency behind one port with 1 and 2 frontends,
 * and what a frontend costs per 100 idle workers (memory, CPU).
 *
 *   npm run build && npx tsx bench/frontends.ts [--seconds 10] [--workers 100]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { FileDiscovery } from '../src/discovery/index.ts'
import { HostedWorker } from '../src/host/index.ts'
import { osClock } from '../src/os/index.ts'
import { SimEngine } from '../src/simengine/index.ts'
import { startBaton, startServer } from '../test/running-server.ts'
import { load } from './load/measure.ts'
import { cpuMicros, rssMegabytes } from './load/process-cpu.ts'
import { WORKLOADS } from './load/workloads.ts'
import type { Workload } from './load/workloads.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    workers: { type: 'string', default: '100' },
  },
})
const seconds = Number(values.seconds)
const workerCount = Number(values.workers)
const SIM = ['--engine', 'sim', '--sim-speedup', '0', '--sequences', '1024', '--aggregated', '1']

/** 128 streams of 64 tokens at once: most of the work is the frontend's. */
const STREAMS = WORKLOADS.find(({ name }) => name === 's128') as Workload

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function throughput(frontends: number): Promise<number> {
  const server = await startServer([...SIM, '--frontends', String(frontends)])
  try {
    const spec = {
      port: server.port,
      path: '/v1/chat/completions',
      warmupRequests: 0,
      bodies: STREAMS.bodies,
      concurrency: STREAMS.concurrency,
      requestsMax: 1_000_000,
    }
    await load({ ...spec, seconds: 5 })
    const result = await load({ ...spec, seconds })
    const rate = (result.requests / result.elapsedMs) * 1000
    const { p50, p99 } = result.ttftMs
    console.log(
      `${frontends} frontend(s)  ${rate.toFixed(0).padStart(6)} requests/s  TTFT p50 ${p50.toFixed(1)} ms  p99 ${p99.toFixed(1)} ms  failures ${result.failures}`,
    )
    return rate
  } finally {
    await server.stop()
  }
}

/** Connected and idle: what remains is memory, pings and looking into the folder. */
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

const one = await throughput(1)
const two = await throughput(2)
console.log(`2 frontends / 1 frontend: ${(two / one).toFixed(2)}`)
await costOfWorkers()
