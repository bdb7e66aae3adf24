/**
 * What traces cost a request that is sampled out: its context, and one look per event.
 */
import { workerIdOf } from '../src/base/index.ts'
import { loadTraces } from '../src/host/index.ts'
import type { FrontendEvent } from '../src/frontend/index.ts'
import { osClock } from '../src/os/index.ts'

const REQUESTS = 200_000
const EVENTS_PER_REQUEST = 11

const open = await loadTraces()
const traces = open({
  clock: osClock,
  endpoint: 'http://127.0.0.1:9',
  serviceName: 'bench',
  version: '0',
  sampleRatio: 0,
  decisionsOf: () => [],
  onProblem: (problem) => console.error(problem),
})
const event: FrontendEvent = {
  kind: 'prefillDone',
  phase: 'prefill',
  workerId: workerIdOf(1),
  elapsedMs: 1,
  atMs: 1,
}

function microsecondsPerRequest(): number {
  const startMs = performance.now()
  for (let i = 0; i < REQUESTS; i++) {
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
  return ((performance.now() - startMs) * 1000) / REQUESTS
}

microsecondsPerRequest()
const runs = Array.from({ length: 5 }, microsecondsPerRequest).toSorted((a, b) => a - b)
console.log(`sampled out: ${runs[2]?.toFixed(2)} µs per request (median of 5 × ${REQUESTS})`)
await traces.close()
