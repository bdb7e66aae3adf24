/**
 * Cost of an open console for a busy frontend with many workers: CPU with no page, one page and the maximum number of
 * pages, and CPU and bytes of one snapshot of the fleet. Workers and requests are generated; the request log, the event
 * feed and the fleet view are the frontend's own code.
 *
 *   npx tsx bench/console.ts [--workers 10000] [--requests 5000] [--seconds 8]
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { workerIdOf } from '../src/base/index.ts'
import { LiveFeed, READERS_MAX } from '../src/frontend/console/live-feed.ts'
import { RequestLog } from '../src/frontend/console/request-log.ts'
import { Frontend } from '../src/frontend/index.ts'
import type { FrontendEvent, HttpStream } from '../src/frontend/index.ts'
import { osClock, osRandom } from '../src/os/index.ts'
import { createModelRouter } from '../src/router/index.ts'
import { LocalRequestPlane } from '../src/network/index.ts'
import { readOptions } from './load/options.ts'

const { values } = readOptions({
  options: {
    workers: { type: 'string', default: '10000' },
    requests: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '8' },
  },
})
const [workers, perSecond, seconds] = [values.workers, values.requests, values.seconds].map(Number)
const onFault = (error: unknown): void => console.error(error)
const plane = new LocalRequestPlane({ onKvEvents: () => {}, onLoad: () => {}, onFault })
const frontend = new Frontend({
  clock: osClock,
  random: osRandom,
  createRouter: () => createModelRouter({ plane, clock: osClock, random: osRandom }),
  loadText: () => Promise.reject(new Error('no text is needed')),
})
for (let i = 0; i < (workers ?? 0); i++) {
  frontend.registry.workerJoined({
    workerId: workerIdOf(i + 1),
    mode: i % 2 === 0 ? 'prefill' : 'decode',
    host: '10.0.0.1',
    port: 4000,
    engine: { model: 'm', kvCacheBlockSize: 16, totalKvBlocks: 10_000 },
    engineName: 'sim',
    publishesKvEvents: false,
    version: '0',
  })
}

const log = new RequestLog(osClock)
const KINDS = ['tokenised', 'routed', 'prefillStarted', 'prefillDone', 'routed'] as const
const MORE = ['kvTransferred', 'decodeStarted', 'firstToken'] as const
let count = 0

function request(): void {
  const atMs = osClock.nowMs()
  const facts = {
    requestId: `r${++count}`,
    model: 'm',
    endpoint: 'chat_completions',
    streamed: true,
    traceparent: undefined,
  } as const
  const told = (event: object): void => log.observe({ atMs, ...event } as FrontendEvent, facts)
  told({ kind: 'received' })
  for (const kind of [...KINDS, ...MORE]) {
    told({ kind, workerId: workerIdOf(1 + (count % 1000)), elapsedMs: 1, queuedMs: 1 })
  }
  told({
    kind: 'ended',
    outcome: 'success',
    status: 200,
    durationMs: 9,
    promptTokens: 100,
    cachedTokens: 50,
    completionTokens: 20,
  })
}

interface Cost {
  readonly cpuShare: number
  readonly bytesPerSecond: number
}

async function costOf(readers: number): Promise<Cost> {
  const feed = new LiveFeed({ clock: osClock, log, fleet: () => frontend.fleet() })
  // Each page has a connection of its own, and so a signal of its own.
  const pages = Array.from({ length: readers }, () => new AbortController())
  let bytes = 0
  for (const { signal } of pages) {
    const { body } = feed.open(signal)
    ;(body as HttpStream).open({ write: (text) => void (bytes += text.length), end: () => {} })
  }
  await sleep(1_000)
  bytes = 0
  const before = process.cpuUsage()
  const startMs = performance.now()
  let sent = 0
  while (performance.now() - startMs < (seconds ?? 0) * 1000) {
    const due = ((performance.now() - startMs) / 1000) * (perSecond ?? 0)
    for (; sent < due; sent++) request()
    await sleep(5)
  }
  const { user, system } = process.cpuUsage(before)
  const elapsedMs = performance.now() - startMs
  for (const page of pages) page.abort()
  feed.close()
  return {
    cpuShare: (user + system) / 1000 / elapsedMs,
    bytesPerSecond: (bytes / elapsedMs) * 1000,
  }
}

console.log(`${workers} workers, ${perSecond} requests per second, ${seconds} s each`)
const share = (value: number): string => `${(100 * value).toFixed(1)} % of a core`
for (const readers of [0, 1, READERS_MAX]) {
  const { cpuShare, bytesPerSecond } = await costOf(readers)
  console.log(
    `${readers} pages: ${share(cpuShare)}, ${(bytesPerSecond / 1e6).toFixed(2)} MB/s in all`,
  )
}
const views = Array.from({ length: 30 }, () => {
  const before = process.cpuUsage()
  frontend.fleet()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
})
const median = views.slice(10).toSorted((left, right) => left - right)[10]
const bytes = JSON.stringify(frontend.fleet()).length
console.log(
  `one picture of the fleet: ${median?.toFixed(1)} ms of CPU, ${(bytes / 1000).toFixed(0)} kB`,
)
frontend.close()
await plane.close()
