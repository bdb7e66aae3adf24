/**
 * The cost of tracing for a request that is not sampled, in CPU time of the process: at the frontend its context and
 * one check per event, at each worker one check per event. Sending the trace context costs the same as any header
 * and is not included.
 */
import { workerIdOf } from '../src/base/index.ts'
import { loadTraces } from '../src/host/index.ts'
import type { FrontendEvent } from '../src/frontend/index.ts'
import { osClock } from '../src/os/index.ts'
import type { WorkerEvent } from '../src/worker/index.ts'
import { readOptions } from './load/options.ts'

readOptions({})

const REQUESTS = 200_000
const EVENTS_PER_REQUEST = 13
const EVENTS_PER_LEG = 4
const UNSAMPLED = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-00`

const { otlpTraces, otlpWorkerTraces } = await loadTraces()
const receiver = {
  clock: osClock,
  endpoint: 'http://127.0.0.1:9',
  serviceName: 'bench',
  version: '0',
  onProblem: (problem: string) => console.error(problem),
}
const traces = otlpTraces({ ...receiver, sampleRatio: 0, decisionsOf: () => [] })
const ofWorkers = otlpWorkerTraces(receiver)
const event: FrontendEvent = {
  kind: 'prefillDone',
  phase: 'prefill',
  workerId: workerIdOf(1),
  elapsedMs: 1,
  atMs: 1,
}
const ended: WorkerEvent = {
  kind: 'request-ended',
  requestId: 'r',
  promptTokens: 1,
  outputTokens: 1,
  elapsedMs: 1,
  traceparent: UNSAMPLED,
  times: { admittedMs: 0, atEngineMs: 0, firstTokenMs: 0, endedMs: 1 },
}
const worker = { workerId: workerIdOf(1), mode: 'decode' } as const

function frontend(): void {
  const traceparent = traces.begin(undefined)
  const facts = {
    requestId: 'r',
    model: 'm',
    endpoint: 'chat_completions',
    streamed: true,
    traceparent,
  } as const
  for (let n = 0; n < EVENTS_PER_REQUEST; n++) traces.observe(event, facts)
}

function leg(): void {
  for (let n = 0; n < EVENTS_PER_LEG; n++) ofWorkers.observe(ended, worker)
}

function microseconds(work: () => void): number {
  const before = process.cpuUsage()
  for (let i = 0; i < REQUESTS; i++) work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / REQUESTS
}

for (const [name, work] of [
  ['frontend, per request', frontend],
  ['worker, per leg', leg],
] as const) {
  microseconds(work)
  const runs = Array.from({ length: 5 }, () => microseconds(work)).toSorted((a, b) => a - b)
  console.log(
    `sampled out, ${name}: ${runs[2]?.toFixed(2)} µs of CPU (median of 5 × ${REQUESTS}, ${runs[0]?.toFixed(2)} to ${runs[4]?.toFixed(2)})`,
  )
}
await Promise.all([traces.close(), ofWorkers.close()])
