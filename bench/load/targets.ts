/**
 * The targets of a workload: a bare server, Baton, and others for comparison.
 */
import { startServer } from '../../test/running-server.ts'
import type { RunningServer } from '../../test/running-server.ts'
import { startBareFrontend, startBareServer } from './measure.ts'

export type Topology = 'aggregated' | 'disaggregated'

export interface Target {
  readonly name: string
  readonly model: string
  readonly port: number
  /** Of the frontend alone. */
  readonly pid: number
  /** From the start of its processes to its first answer. */
  readonly startMs: number
  stop(): Promise<void>
}

const WORKERS: Readonly<Record<Topology, readonly string[]>> = {
  aggregated: ['--aggregated', '2'],
  disaggregated: ['--prefill', '1', '--decode', '1'],
}

const ENGINE = '--engine sim --context-length 131072 --sequences 1024 --sim-blocks 131072'.split(
  ' ',
)

export async function startBaton(
  topology: Topology,
  paced: boolean,
  workers: readonly string[] = WORKERS[topology],
  nodeArgs: readonly string[] = [],
): Promise<Target> {
  const startedAt = performance.now()
  const speedup = ['--sim-speedup', paced ? '1' : '0']
  const server = await startServer([...ENGINE, ...speedup, ...workers], {}, nodeArgs)
  const { port } = server
  await fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'storyteller', prompt: 'hi', max_tokens: 1 }),
  }).then((reply) => reply.arrayBuffer())
  return {
    name: 'Baton',
    model: 'storyteller',
    port,
    pid: server.frontendPid,
    startMs: performance.now() - startedAt,
    stop: async () => void (await server.stop()),
  }
}

/** Arguments for Node: the server collects its garbage when it gets SIGUSR2. */
export const COLLECTS_ON_SIGNAL = [
  '--import',
  new URL('./collect-garbage.js', import.meta.url).href,
] as const

/** The pace of the simulated engine with 100 streams per worker. */
const ENGINE_ITL_MS = 16

export function startBare(nodeArgs: readonly string[] = []): Promise<Target> {
  return bareTarget('bare server', () => startBareServer(nodeArgs))
}

/** Sends tokens at the engine's pace, with its own workers. */
export function startBareFront(): Promise<Target> {
  return bareTarget('bare frontend', () => startBareFrontend(ENGINE_ITL_MS, 2))
}

async function bareTarget(name: string, start: () => Promise<RunningServer>): Promise<Target> {
  const startedAt = performance.now()
  const server = await start()
  return {
    name,
    model: 'storyteller',
    port: server.port,
    pid: server.frontendPid,
    startMs: performance.now() - startedAt,
    stop: async () => void (await server.stop()),
  }
}
