/**
 * One run of the laboratory as plain data (requests, fleet, router, seed), so that it can be sent to another
 * process.
 */
import { settle } from '../../os/index.ts'
import { BatonError } from '../../base/index.ts'
import {
  arrangeTrace,
  createLabRun,
  createWorkload,
  drawFaults,
  parseTrace,
  recordFleet,
} from '../../sim/index.ts'
import type { DrawnFaults } from './lab-faults.ts'
import { readTraceLines } from './trace-file.ts'
import type {
  FaultEvent,
  FleetConfig,
  FleetRun,
  LabPoint,
  LabRun,
  TelemetrySample,
  TraceOptions,
  TraceRequest,
  WorkloadOptions,
} from '../../sim/index.ts'

export interface TraceSpec {
  /** The trace file; absent: `workload` makes the requests. */
  readonly path?: string
  readonly workload?: WorkloadOptions
  readonly options: TraceOptions
}

export interface LabCell {
  readonly name: string
  readonly trace: TraceSpec
  readonly config: Omit<FleetConfig, 'trace' | 'settle' | 'onProgress'>
  /** Faults in addition to those of `config`, drawn for the fleet and seed of the cell. */
  readonly drawnFaults: DrawnFaults | null
}

type Progress = NonNullable<FleetConfig['onProgress']>

const SAMPLES = 300
const SAMPLE_MS_MIN = 100

let loaded: { readonly key: string; readonly trace: readonly TraceRequest[] } | null = null

/** The last trace is cached, because all cells of a comparison use the same one. */
export function loadTrace(spec: TraceSpec): readonly TraceRequest[] {
  const key = JSON.stringify(spec)
  if (loaded?.key === key) return loaded.trace
  const trace = readTrace(spec)
  if (trace.length === 0)
    throw new BatonError('config.invalid', `${spec.path ?? 'the workload'} contains no requests`)
  loaded = { key, trace }
  return trace
}

function readTrace({ path, workload, options }: TraceSpec): TraceRequest[] {
  if (path === undefined) return arrangeTrace(createWorkload(workload as WorkloadOptions), options)
  return parseTrace(readTraceLines(path), options)
}

export async function recordCell(cell: LabCell, onProgress?: Progress): Promise<FleetRun> {
  const trace = loadTrace(cell.trace)
  const faults = [...(cell.config.faults ?? []), ...drawnFaultsOf(cell, trace)]
  const lastMs = trace.reduce((last, { atMs }) => Math.max(last, atMs), 0)
  const sampleMs = cell.config.sampleMs ?? Math.max(SAMPLE_MS_MIN, lastMs / SAMPLES)
  return await recordFleet({
    ...cell.config,
    faults,
    sampleMs,
    trace,
    settle,
    ...(onProgress === undefined ? {} : { onProgress }),
  })
}

function drawnFaultsOf(
  { config, drawnFaults }: LabCell,
  trace: readonly TraceRequest[],
): readonly FaultEvent[] {
  if (drawnFaults === null) return []
  const workers = config.workers.reduce((sum, group) => sum + group.count, 0)
  const durationMs = trace.reduce((last, { atMs }) => Math.max(last, atMs), 1)
  return drawFaults({ seed: config.seed ?? 0, ...drawnFaults, workers, durationMs })
}

export async function runCell(cell: LabCell, onProgress?: Progress): Promise<LabRun> {
  const { report, log, telemetry } = await recordCell(cell, onProgress)
  return createLabRun({ name: cell.name, report, log, points: pointsOf(telemetry) })
}

export function pointsOf(telemetry: readonly TelemetrySample[]): LabPoint[] {
  return telemetry.map(({ atMs, queuedRequests, activeRequests, workers }) => ({
    atMs,
    queued: workers.reduce((sum, { queued }) => sum + queued, queuedRequests),
    active: activeRequests,
    busy:
      workers.length === 0 ? 0 : workers.reduce((sum, { busy }) => sum + busy, 0) / workers.length,
  }))
}
