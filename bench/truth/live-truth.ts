/**
 * The laboratory against the live simulated engine: the same scheduler and timing, with sockets, processes and timers.
 * What HTTP and the frontend take on this machine is measured by `baton profile` before, with one worker.
 */
import { join } from 'node:path'
import type { TruthRow } from './compare-runs.ts'
import { baton, truthOf, withServer } from './run-load.ts'
import type { TruthLoad, TruthOptions } from './run-load.ts'

const ENGINE = 'engine: sim\nsimBlocks: 16384\nsequences: 64\ncontextLength: 65536\n'
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
  const { folder } = options
  const profile = join(folder, 'profile.json')
  await withServer(folder, `${ENGINE}aggregated: 1\n`, (url) =>
    baton(['profile', url, '--max-prompt', '4096', '--max-batch', '2', '--out', profile]),
  ).then(console.log)
  return await withServer(folder, `${ENGINE}aggregated: 2\n`, async (url, config) => {
    const rows: TruthRow[] = []
    const simulated = ['--config', config, '--overhead', profile]
    for (const load of LOADS)
      rows.push(...(await truthOf(load, options, [url], simulated, { p50: 0.05, p99: null })))
    return rows
  })
}
