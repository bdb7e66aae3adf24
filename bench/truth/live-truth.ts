/**
 * The laboratory against the live simulated engine: the same scheduler and timing, with sockets, processes and
 * timers. The time of HTTP and the frontend on this machine is measured by `baton profile` before, with one worker,
 * on a server that is warm, as the servers of the loads are.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { TruthRow } from './compare-runs.ts'
import { baton, compareLoads, measuredOnce, measureLoads, withServer } from './run-load.ts'
import type { TruthLoad, TruthOptions } from './run-load.ts'

const ENGINE = 'engine: sim\nsimBlocks: 16384\nsequences: 64\ncontextLength: 65536\n'
/** As many requests as `profile` sends: the first ones of a server take 2 ms longer each. */
const WARM_UP = 'workload:mix,requests=150,output=20'
const LOADS: readonly TruthLoad[] = [
  { name: 'chat', workload: 'workload:chat,requests=120,rate=8,turns=3,think=500' },
  { name: 'rag', workload: 'workload:rag,requests=60,rate=3' },
  {
    name: 'chat, closed loop of 8',
    workload: 'workload:chat,requests=120,turns=3,think=100',
    flags: ['--concurrency', '8'],
  },
  {
    name: 'mix, closed loop of 12',
    workload: 'workload:mix,requests=60',
    flags: ['--concurrency', '12'],
  },
]

export async function liveTruth(options: TruthOptions): Promise<TruthRow[]> {
  const folder = join(options.folder, 'live')
  mkdirSync(folder, { recursive: true })
  const profile = join(folder, 'profile.json')
  await measuredOnce(profile, async (path) => {
    const probes = ['--max-prompt', '4096', '--max-batch', '2', '--repeats', '5']
    const measure = (url: string): Promise<string> =>
      baton(['profile', url, ...probes, '--out', path])
    console.log(await withServer(folder, `${ENGINE}aggregated: 1\n`, measure))
  })
  const yaml = `${ENGINE}aggregated: 2\n`
  await withServer(folder, yaml, async (url) => {
    await baton(['bench', url, WARM_UP, '--concurrency', '8', '--quiet'])
    await measureLoads(LOADS, { ...options, folder }, url)
  })
  const simulated = ['--config', join(folder, 'baton.yaml'), '--overhead', profile]
  return await compareLoads(LOADS, { ...options, folder }, simulated, { p50: 0.05, p99: null })
}
