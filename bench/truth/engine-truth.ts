/**
 * The laboratory against a real engine: llama.cpp with a model of random weights (which computes as long as a real
 * one of its size), profiled just before. The loads have other lengths and other numbers of requests than the
 * profile.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mkdirSync, writeFileSync } from 'node:fs'
import type { TruthRow } from './compare-runs.ts'
import { writeRandomModel } from './random-model.ts'
import { baton, compareLoads, measuredOnce, measureLoads, withServer } from './run-load.ts'
import type { TruthLoad, TruthOptions } from './run-load.ts'

const LIKE = fileURLToPath(
  new URL('../../models/storyteller/storyteller-q8_0.gguf', import.meta.url),
)
/** About 85 million parameters, so that a token takes longer than the 3 ms within which tokens are sent together. */
const SIZE = { layers: 28, width: 512, inner: 1408, heads: 8, kvHeads: 4 }
const SEQUENCES = 8
const LOADS: readonly TruthLoad[] = [
  {
    name: 'chat, 1.2 requests/s',
    workload: 'workload:chat,requests=30,rate=1.2,turns=3,think=500,input=80,output=40',
  },
  {
    name: 'random, 1.1 requests/s',
    workload: 'workload:random,requests=30,rate=1.1,input=100,output=40',
  },
  {
    name: 'closed loop of 5',
    workload: 'workload:random,requests=40,input=100,output=50',
    flags: ['--concurrency', '5'],
  },
]

export async function engineTruth(options: TruthOptions): Promise<TruthRow[]> {
  const folder = join(options.folder, 'engine')
  mkdirSync(folder, { recursive: true })
  const model = options.model ?? join(folder, 'random.gguf')
  if (options.model === undefined) writeRandomModel(model, LIKE, SIZE)
  const shared = `aggregated: 1\nsequences: ${SEQUENCES}\ncontextLength: 4096\n`
  const timing = join(folder, 'timing.json')
  await withServer(folder, `engine: llamacpp\nmodel: ${model}\n${shared}`, async (url) => {
    const probes = ['--max-prompt', '1024', '--max-batch', '8', '--repeats', '5']
    await measuredOnce(timing, async (path) => {
      console.log(await baton(['profile', url, ...probes, '--out', path]))
    })
    await measureLoads(LOADS, { ...options, folder }, url)
  })
  const config = join(folder, 'simulated.yaml')
  // The same block size as the engine.
  writeFileSync(config, `engine: sim\nsimBlocks: 65536\nsimBlockSize: 16\n${shared}`)
  const simulated = ['--config', config, '--timing', timing]
  return await compareLoads(LOADS, { ...options, folder }, simulated, { p50: 0.15, p99: 0.25 })
}
