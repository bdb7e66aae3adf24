/**
 * One load live and in the laboratory, each by its command; of several repeats the medians.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LabRun } from '../../src/sim/index.ts'
import { runBaton, startServer } from '../../test/running-server.ts'
import { compareRuns } from './compare-runs.ts'
import type { TruthRow } from './compare-runs.ts'

export interface TruthLoad {
  readonly name: string
  readonly workload: string
  /** Of `bench` and `replay`. */
  readonly flags?: readonly string[]
}

export interface TruthOptions {
  readonly folder: string
  readonly repeats: number
  readonly dynamo?: string | undefined
  readonly trace?: string | undefined
  /** A GGUF file for the engine; absent: one with random weights is made. */
  readonly model?: string | undefined
}

export async function baton(args: readonly string[]): Promise<string> {
  const { exitCode, printed } = await runBaton(args)
  if (exitCode !== 0)
    throw new Error(`baton ${args.join(' ')}: exit code ${exitCode}\n${printed.slice(0, 1500)}`)
  return printed
}

export async function reportOf(args: readonly string[]): Promise<LabRun['report']> {
  const printed = await baton([...args, '--quiet', '--json', '-'])
  const from = printed.indexOf('{')
  const read = JSON.parse(printed.slice(from)) as { run?: LabRun; runs?: LabRun[] }
  const { report } = read.run ?? read.runs![0]!
  const failed = Object.values(report.failed).reduce((sum, count) => sum + count, 0)
  if (failed > 0) throw new Error(`baton ${args.join(' ')}: ${JSON.stringify(report.failed)}`)
  return report
}

/** A server with a configuration file that the laboratory reads as well. */
export async function withServer<T>(
  folder: string,
  yaml: string,
  use: (url: string, config: string) => Promise<T>,
): Promise<T> {
  const config = join(folder, 'baton.yaml')
  writeFileSync(config, yaml)
  const server = await startServer(['--config', config])
  try {
    return await use(server.url, config)
  } finally {
    await server.stop()
  }
}

/** Seeds differ from repeat to repeat, so that no repeat finds the cache of another. */
export async function truthOf(
  load: TruthLoad,
  { repeats }: TruthOptions,
  live: readonly string[],
  simulated: readonly string[],
  limits: { readonly p50: number; readonly p99: number | null },
): Promise<TruthRow[]> {
  const all: TruthRow[][] = []
  for (let repeat = 0; repeat < repeats; repeat++) {
    const workload = `${load.workload},seed=${++seed}`
    const flags = load.flags ?? []
    const measured = await reportOf(['bench', live[0]!, workload, ...flags, ...live.slice(1)])
    const made = await reportOf(['replay', workload, ...flags, ...simulated])
    all.push(compareRuns(load.name, measured, made, limits))
  }
  return all[0]!.map((row, i) => ({
    ...row,
    measured: median(all.map((rows) => rows[i]!.measured)),
    simulated: median(all.map((rows) => rows[i]!.simulated)),
  }))
}

let seed = 100

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}
