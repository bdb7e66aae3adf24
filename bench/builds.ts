/**
 * Compares the frontend's CPU per request of two builds of Baton, which take turns on prompts that never repeat. On a
 * shared machine absolute figures change from minute to minute; the ratio of adjacent turns is stable.
 *
 *   npx tsx bench/builds.ts --against DIR [--forward] [--prefill 0|1] [--workload n16|s16x1|p64] [--words 100]
 *     [--turns 8] [--seconds 2]
 *
 * DIR is another checkout that has been built. With `--forward` both builds forward to two trivial upstreams, otherwise
 * each has two simulated workers.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { RunningServer, startServer as start } from '../test/running-server.ts'
import { startUpstream } from './forward/targets.ts'
import { load, specOf } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { cpuMicros, rssMegabytes } from './load/process-cpu.ts'
import { WARM_UP, WORKLOADS } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    against: { type: 'string', default: '' },
    forward: { type: 'boolean', default: false },
    prefill: { type: 'string', default: '0' },
    workload: { type: 'string', default: 'n16' },
    words: { type: 'string', default: '' },
    turns: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '2' },
  },
})
const WARM_UP_SECONDS = 20
/** Milliseconds between the tokens of a paced upstream. */
const ITL_MS = 10
const named = WORKLOADS.find(({ name }) => name === values.workload)
const workload =
  named === undefined || values.words === ''
    ? named
    : { ...named, asked: { ...named.asked, words: Number(values.words) } }
if (values.against === '' || workload === undefined)
  throw new Error('give --against and a workload')

const itlMs = workload.paced ? ITL_MS : 0
const upstreams = values.forward ? [await startUpstream(itlMs), await startUpstream(itlMs)] : []

async function started(folder: string): Promise<RunningServer> {
  const file = pathToFileURL(resolve(folder, 'test/running-server.ts')).href
  const { startServer } = (await import(file)) as { startServer: typeof start }
  if (values.forward) {
    const urls = upstreams.map(({ port }) => `openai+http://127.0.0.1:${port}`).join(',')
    return await startServer(['--upstream', urls, '--forward', '--log-level', 'error'])
  }
  const topology =
    values.prefill === '0' ? ['--aggregated', '2'] : ['--prefill', '1', '--decode', '1']
  const speedup = workload?.paced === true ? '1' : '0'
  const engine = ['--engine', 'sim', '--sequences', '1024', '--sim-speedup', speedup]
  // Long prompts fit, too.
  engine.push('--context-length', '131072', '--sim-blocks', '131072')
  return await startServer([...engine, ...topology, '--log-level', 'error'])
}

const builds = [
  { name: values.against, server: await started(values.against), micros: [] as number[] },
  { name: 'this build', server: await started('.'), micros: [] as number[] },
]
for (const { server } of [...builds, ...builds]) {
  const warmUp = workload.paced ? WARM_UP : workload
  await load({ ...specOf(server.port, warmUp), seconds: WARM_UP_SECONDS / 2 })
}
for (let turn = 0; turn < Number(values.turns); turn++) {
  for (const { server, micros } of turn % 2 === 0 ? builds : builds.toReversed()) {
    const before = cpuMicros(server.frontendPid)
    const spec = { ...specOf(server.port, workload), seconds: Number(values.seconds) }
    const { requests, firstFailure } = await load(spec)
    if (firstFailure !== null) throw new Error(firstFailure)
    micros.push((cpuMicros(server.frontendPid) - before) / Math.max(1, requests))
  }
}

function median(of: readonly number[]): number {
  return of.toSorted((a, b) => a - b)[Math.floor(of.length / 2)] ?? 0
}

for (const { name, server, micros } of builds) {
  const each = micros.map((one) => one.toFixed(0)).join(' ')
  const megabytes = rssMegabytes(server.frontendPid).toFixed(0)
  console.log(`${name}: ${median(micros).toFixed(0)} µs per request (${each}), ${megabytes} MB`)
}
const [before = [], after = []] = builds.map(({ micros }) => micros)
const ratios = after.map((one, turn) => one / (before[turn] ?? Number.NaN))
console.log(`ratio: ${median(ratios).toFixed(2)} (median of ${ratios.length} turns)`)
for (const { server } of builds) await server.stop()
for (const upstream of upstreams) await upstream.stop()
