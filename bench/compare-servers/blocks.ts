/**
 * The blocks of rows of `bench/compare-servers.ts`. Each starts its servers, prints its rows and stops them.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { runBaton } from '../../test/running-server.ts'
import { startDynamo } from '../load/dynamo.ts'
import { rssMegabytes } from '../load/process-cpu.ts'
import { median } from '../load/summary.ts'
import { COLLECTS_ON_SIGNAL, startBare, startBareFront, startBaton } from '../load/targets.ts'
import type { Target, Topology } from '../load/targets.ts'
import { conversation, sendLongPrompts } from './long-prompts.ts'
import { medians, perRequest, takeTurns } from './slices.ts'
import type { Shape } from './slices.ts'
import { kilobytesPerWaitingStream } from './waiting-streams.ts'

export interface Setting {
  readonly dynamo: { readonly venvParent: string; readonly modelFolder: string } | null
  /** Folder of the virtual environment with the wheel `xllamacpp`. */
  readonly llamaServer: string | null
  readonly rounds: number
  /** For the blocks `request` and `token`. */
  readonly topologies: readonly Topology[]
  /** Number of requests before a server counts as warm. */
  readonly warmUpRequests: number
}

const COLD_REQUESTS = 3000
const IDLE_MS = 15_000
const WAITING_STREAMS = 2000
const WARM_STREAMS = 2000
const SHORT: Shape = { words: 100, tokens: 1, stream: false, concurrency: 16 }
const PACED: Shape = { words: 100, tokens: 128, stream: true, concurrency: 200 }
const BURST: Shape = { words: 100, tokens: 64, stream: true, concurrency: 128 }
const LONG: Shape = { words: 8000, tokens: 1, stream: false, concurrency: 1 }
const FOUR: Shape = { words: 100, tokens: 256, stream: true, concurrency: 4 }

const ENGINE_BENCH = fileURLToPath(new URL('../engine.ts', import.meta.url))

export const BLOCKS: Readonly<Record<string, (setting: Setting) => Promise<void>>> = {
  request: async (setting) => {
    for (const topology of setting.topologies) {
      await withTargets(setting, topology, { bare: true }, (targets) =>
        requestRows(topology, targets, setting),
      )
    }
  },
  token: async (setting) => {
    for (const topology of setting.topologies) {
      await withTargets(setting, topology, { bare: true, paced: true }, (targets) =>
        tokenRow(topology, targets, setting),
      )
    }
  },
  burst: (setting) =>
    withTargets(setting, 'aggregated', {}, async (targets) => {
      await takeTurns(targets, BURST, 1000)
      const rates = await medians(
        targets,
        BURST,
        1500,
        setting.rounds,
        ({ result }) => (result.requests * BURST.tokens * 1000) / result.elapsedMs,
      )
      print('tokens/s, 128 clients', rates, '')
    }),
  long: (setting) =>
    withTargets(setting, 'aggregated', {}, async (targets) => {
      await takeTurns(targets, LONG, 50)
      await longRows(targets, setting.rounds, '')
      await takeTurns(targets, SHORT, setting.warmUpRequests)
      await longRows(targets, setting.rounds, `, after ${setting.warmUpRequests} short requests`)
    }),
  neighbours: (setting) =>
    withTargets(setting, 'disaggregated', { paced: true }, async (targets) => {
      await takeTurns(targets, SHORT, 3000)
      const alone = await medians(
        targets,
        FOUR,
        8,
        setting.rounds,
        ({ result }) => result.itlMs.p99,
      )
      print('4 streams, ITL p99, alone', alone, 'ms')
      const withLongPrompts = new Map<Target, number>()
      for (const target of targets) {
        const stop = new AbortController()
        const sending = sendLongPrompts(target, 60_000, stop.signal)
        const figures = await medians([target], FOUR, 8, setting.rounds, (s) => s.result.itlMs.p99)
        stop.abort()
        withLongPrompts.set(target, figures.get(target) ?? 0)
        console.log(`  ${target.name}: ${await sending} prompts of 60,000 words meanwhile`)
      }
      print('4 streams, ITL p99, with prompts of 60,000 words', withLongPrompts, 'ms')
    }),
  memory: (setting) =>
    withTargets(setting, 'aggregated', {}, async (targets) => {
      const resident = (): Map<Target, number> =>
        new Map(targets.map((target) => [target, rssMegabytes(target.pid)]))
      print('resident at start', resident(), 'MB')
      for (let turn = 0; turn < 6; turn++) await takeTurns(targets, SHORT, 5000)
      print('resident after 30,000 requests', resident(), 'MB')
      for (const target of targets) await sendLongPrompts(target, 60_000, null, 20)
      print('resident after 20 prompts of 60,000 words', resident(), 'MB')
    }),
  waiting: async () => {
    // A worker of the simulated engine computes 1,024 at once; a slow one returns few tokens meanwhile.
    const workers = ['--aggregated', '3', '--sim-speedup', '0.2']
    // Otherwise the young generation grows to 32 MB meanwhile, which is no memory of the streams.
    const bare = await startBare(['--max-semi-space-size=1', ...COLLECTS_ON_SIGNAL])
    const targets = [await startBaton('aggregated', true, workers, COLLECTS_ON_SIGNAL), bare]
    const kilobytes = new Map<Target, number>()
    for (const target of targets)
      kilobytes.set(target, await kilobytesPerWaitingStream(target, WAITING_STREAMS))
    print(`resident per waiting stream, ${WAITING_STREAMS} streams`, kilobytes, 'kB')
    for (const target of targets) await target.stop()
  },
  start: async (setting) => {
    const starts = new Map<string, number[]>()
    const helps: number[] = []
    for (let round = 0; round < setting.rounds; round++) {
      await withTargets(setting, 'aggregated', {}, (targets) => {
        for (const { name, startMs } of targets)
          starts.set(name, [...(starts.get(name) ?? []), startMs])
        return Promise.resolve()
      })
      const from = performance.now()
      await runBaton(['--help'])
      helps.push(performance.now() - from)
    }
    for (const [name, figures] of starts)
      console.log(`start to first answer, ${name}: ${median(figures).toFixed(0)} ms`)
    console.log(`baton --help: ${median(helps).toFixed(0)} ms`)
  },
  engine: async ({ llamaServer }) => {
    const llamaServerFlags = llamaServer === null ? [] : ['--llama-server', llamaServer]
    const args = [
      '--import',
      'tsx',
      ENGINE_BENCH,
      '--fast',
      '--prompts',
      '100,500',
      ...llamaServerFlags,
    ]
    await new Promise((done) => {
      spawn(process.execPath, args, { stdio: 'inherit' }).once('exit', done)
    })
  },
}

async function requestRows(
  topology: Topology,
  targets: readonly Target[],
  { rounds, warmUpRequests }: Setting,
): Promise<void> {
  const single = async (requests: number): Promise<Map<Target, number>> =>
    new Map(
      [...(await takeTurns(targets, SHORT, requests))].map(([t, slice]) => [t, perRequest(slice)]),
    )
  const what = `CPU per request, ${topology}`
  print(`${what}, first ${COLD_REQUESTS}`, await single(COLD_REQUESTS), 'µs')
  await takeTurns(targets, SHORT, warmUpRequests)
  print(`${what}, warm`, await medians(targets, SHORT, 2000, rounds, perRequest), 'µs')
  await new Promise((done) => setTimeout(done, IDLE_MS))
  print(`${what}, after ${IDLE_MS / 1000} s of idling`, await single(500), 'µs')
}

async function longRows(targets: readonly Target[], rounds: number, when: string): Promise<void> {
  const cpu = await medians(targets, LONG, 40, rounds, perRequest)
  print(`8,000 words, CPU per request${when}`, cpu, 'µs')
  const known = new Map<Target, number>()
  for (const target of targets) known.set(target, await conversation(target))
  print(`a new turn after the same 8,000 words, CPU per request${when}`, known, 'µs')
}

/** Includes the prompt and the end of a stream: a stream has 128 tokens. */
async function tokenRow(
  topology: Topology,
  targets: readonly Target[],
  { rounds, warmUpRequests }: Setting,
): Promise<void> {
  await takeTurns(targets, { ...SHORT, stream: true }, warmUpRequests / 2)
  await takeTurns(targets, PACED, 200)
  const costs = (): Promise<Map<Target, number>> =>
    medians(targets, PACED, 400, rounds, (slice) => perRequest(slice) / PACED.tokens)
  const what = `CPU per paced token, 200 streams, ${topology}`
  print(what, await costs(), 'µs')
  // V8 still compiles during the first of these streams.
  await takeTurns(targets, PACED, WARM_STREAMS)
  print(`${what}, after ${WARM_STREAMS} more streams`, await costs(), 'µs')
}

async function withTargets(
  { dynamo }: Setting,
  topology: Topology,
  { bare = false, paced = false }: { readonly bare?: boolean; readonly paced?: boolean },
  run: (targets: readonly Target[]) => Promise<void>,
): Promise<void> {
  const targets: Target[] = []
  try {
    targets.push(await startBaton(topology, paced))
    if (bare) targets.push(await startBare())
    // Paced workloads are also compared with a bare server that gets its tokens at the same pace.
    if (bare && paced) targets.push(await startBareFront())
    if (dynamo !== null) targets.push(await startDynamo(dynamo, topology, paced))
    await run(targets)
  } finally {
    await Promise.all(targets.map((target) => target.stop()))
  }
}

/** One row: each server's figure, and Baton's as a multiple of each other's. */
function print(what: string, figures: ReadonlyMap<Target, number>, unit: string): void {
  const cells = [...figures].map(([{ name }, value]) => `${name} ${digits(value)} ${unit}`.trim())
  const own = [...figures].find(([{ name }]) => name === 'Baton')?.[1] ?? 0
  const ratios = [...figures]
    .filter(([{ name }]) => name !== 'Baton')
    .map(([{ name }, value]) => `${(own / value).toFixed(2)} × ${name}`)
  console.log([what, ...cells, ...ratios].join(' | '))
}

const digits = (value: number): string => value.toFixed(value < 100 ? 1 : 0)
