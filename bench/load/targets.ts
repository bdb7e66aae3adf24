/**
 * What a workload is sent to: a bare server, Baton, and others beside them.
 */
import { startServer } from '../../test/running-server.ts'
import { startBareServer } from './measure.ts'

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

const ENGINE = '--engine sim --context-length 131072 --sequences 1024'.split(' ')

export async function startBaton(topology: Topology, paced: boolean): Promise<Target> {
  const startedAt = performance.now()
  const server = await startServer([
    ...WORKERS[topology],
    ...ENGINE,
    '--sim-speedup',
    paced ? '1' : '0',
  ])
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

export async function startBare(): Promise<Target> {
  const startedAt = performance.now()
  const server = await startBareServer()
  return {
    name: 'bare server',
    model: 'storyteller',
    port: server.port,
    pid: server.frontendPid,
    startMs: performance.now() - startedAt,
    stop: async () => void (await server.stop()),
  }
}
