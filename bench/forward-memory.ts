/**
 * Memory of a proxy over the number of forwarded requests, all prompts distinct: RSS of Baton and of a bare
 * node:http proxy after so many requests, each in a fresh process.
 *
 *   npx tsx bench/forward-memory.ts [--words 100] [--requests 1000,10000,50000] [--concurrency 16] [--targets baton,proxy]
 */
import { readFileSync } from 'node:fs'
import { startBaton, startNodeProxy, startUpstream } from './forward/targets.ts'
import { load } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { cpuMicros, rssMegabytes } from './load/process-cpu.ts'

const { values } = readOptions({
  options: {
    words: { type: 'string', default: '100' },
    requests: { type: 'string', default: '1000,10000,50000' },
    concurrency: { type: 'string', default: '16' },
    targets: { type: 'string', default: 'baton,proxy' },
  },
})
const words = Number(values.words)
const steps = values.requests.split(',').map(Number)
const STARTS = { baton: startBaton, proxy: startNodeProxy } as const

/** The largest RSS that the process ever had. */
function peakMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}

const upstreams = await Promise.all([startUpstream(0), startUpstream(0)])
for (const name of values.targets.split(',') as (keyof typeof STARTS)[]) {
  const target = await STARTS[name](upstreams.map(({ port }) => port))
  const pid = target.pid ?? 0
  console.log(`${target.name}, idle: ${rssMegabytes(pid).toFixed(0)} MB`)
  let done = 0
  for (const step of steps) {
    const before = cpuMicros(pid)
    const result = await load({
      port: target.port,
      path: '/v1/chat/completions',
      bodies: {
        asked: { model: 'storyteller', words, tokens: 8, stream: true },
        firstSeed: done + 1,
      },
      concurrency: Number(values.concurrency),
      seconds: 600,
      requestsMax: step - done,
      warmupRequests: 0,
    })
    done = step
    const micros = (cpuMicros(pid) - before) / Math.max(1, result.requests)
    console.log(
      `${target.name}, ${words} words, after ${step} requests: RSS ${rssMegabytes(pid).toFixed(0)} MB, peak ${peakMegabytes(pid).toFixed(0)} MB, ${micros.toFixed(0)} µs of CPU per request` +
        (result.failures === 0 ? '' : `, ${result.failures} FAILED: ${result.firstFailure}`),
    )
  }
  await target.stop()
}
for (const upstream of upstreams) await upstream.stop()
