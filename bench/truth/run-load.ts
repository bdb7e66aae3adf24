/**
 * Runs loads live and in the laboratory, each by its command; of several repeats the medians are used. Measurements
 * are kept in a folder, so that the machine is needed exclusively only for them, and the comparison can be repeated.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LabRun } from '../../src/sim/index.ts'
import { runBaton, startServer } from '../../test/running-server.ts'
import { compareRuns } from './compare-runs.ts'
import type { TruthRow } from './compare-runs.ts'

export interface TruthLoad {
  /** Also the name of its file. */
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

async function reportOf(args: readonly string[]): Promise<LabRun['report']> {
  const printed = await baton([...args, '--quiet', '--json', '-'])
  const from = printed.indexOf('{')
  const read = JSON.parse(printed.slice(from)) as { run?: LabRun; runs?: LabRun[] }
  const { report } = read.run ?? read.runs![0]!
  const failed = Object.values(report.failed).reduce((sum, count) => sum + count, 0)
  if (failed > 0) throw new Error(`baton ${args.join(' ')}: ${JSON.stringify(report.failed)}`)
  return report
}

/** Calls `make` to write this file, unless an earlier run has written it. */
export async function measuredOnce(path: string, make: (path: string) => Promise<void>) {
  if (existsSync(path)) return
  await make(`${path}.part`)
  renameSync(`${path}.part`, path)
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
function loadArgs({ workload, flags = [] }: TruthLoad, repeat: number): readonly string[] {
  return [`${workload},seed=${FIRST_SEED + repeat}`, ...flags]
}

/** The live half, measured on a machine without other load; each load is a file in the folder. */
export async function measureLoads(
  loads: readonly TruthLoad[],
  { repeats, folder }: TruthOptions,
  url: string,
): Promise<void> {
  for (const load of loads)
    for (let repeat = 0; repeat < repeats; repeat++)
      await measuredOnce(measuredPath(folder, load, repeat), async (path) => {
        const began = performance.now()
        const report = await reportOf(['bench', url, ...loadArgs(load, repeat)])
        writeFileSync(path, JSON.stringify(report))
        const seconds = (performance.now() - began) / 1000
        console.error(`${load.name}: measured in ${seconds.toFixed(0)} s`)
      })
}

/** The other half: the same loads in virtual time. */
export async function compareLoads(
  loads: readonly TruthLoad[],
  { repeats, folder }: TruthOptions,
  simulated: readonly string[],
  limits: { readonly p50: number; readonly p99: number | null },
): Promise<TruthRow[]> {
  const rows: TruthRow[] = []
  for (const load of loads) {
    const all: TruthRow[][] = []
    for (let repeat = 0; repeat < repeats; repeat++) {
      const measured = JSON.parse(
        readFileSync(measuredPath(folder, load, repeat), 'utf8'),
      ) as LabRun['report']
      const made = await reportOf(['replay', ...loadArgs(load, repeat), ...simulated])
      all.push(compareRuns(load.name, measured, made, limits))
    }
    rows.push(
      ...all[0]!.map((row, i) => ({
        ...row,
        measured: median(all.map((of) => of[i]!.measured)),
        simulated: median(all.map((of) => of[i]!.simulated)),
      })),
    )
  }
  return rows
}

function measuredPath(folder: string, { name }: TruthLoad, repeat: number): string {
  return join(folder, `${name.replace(/[^a-z0-9]+/g, '-')}-${repeat}.json`)
}

const FIRST_SEED = 101

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}
