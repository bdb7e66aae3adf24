/**
 * CPU per request of every process that takes part in serving it, so that runs can be compared on a shared machine,
 * where wall-clock time depends on the other load.
 */
import { load, specOf } from './measure.ts'
import { cpuMicros } from './process-cpu.ts'
import type { LoadSpec } from './load-client.ts'
import type { Workload } from './workloads.ts'
import { startServer } from '../../test/running-server.ts'
import type { RunningServer } from '../../test/running-server.ts'

export interface FleetRun {
  readonly requestsPerSecond: number
  readonly ttftMsP50: number
  readonly ttftMsP99: number
  readonly failures: number
  /** µs per request: all frontends together, all workers, the supervising process, the load generator. */
  readonly frontends: number
  readonly workers: number
  readonly parent: number
  readonly clients: number
  /** Cores that all of them used together. */
  readonly coresUsed: number
}

export class MeasuredFleet {
  readonly frontends: number
  readonly #server: RunningServer
  readonly #frontendPids: readonly number[]

  private constructor(frontends: number, server: RunningServer) {
    const pids = /frontend .* pid ([\d, ]+)/.exec(server.printed())?.[1] ?? ''
    this.frontends = frontends
    this.#server = server
    this.#frontendPids = frontends === 1 ? [server.frontendPid] : pids.split(', ').map(Number)
    if (this.#frontendPids.length !== frontends) throw new Error(`not ${frontends}: ${pids}`)
  }

  static async start(frontends: number, args: readonly string[]): Promise<MeasuredFleet> {
    return new MeasuredFleet(
      frontends,
      await startServer([...args, '--frontends', String(frontends)]),
    )
  }

  /**
   * This many requests for each frontend, because each compiles its code by itself, which costs more than serving.
   */
  async warmUp(workload: Workload, requestsPerFrontend: number): Promise<void> {
    const requestsMax = requestsPerFrontend * this.frontends
    const { failures, firstFailure } = await load({ ...this.#spec(workload), requestsMax })
    if (failures > 0) throw new Error(`the warm-up failed: ${firstFailure}`)
  }

  async run(workload: Workload, seconds: number): Promise<FleetRun> {
    const { workerPids, frontendPid } = this.#server
    const parentPids = this.frontends === 1 ? [] : [frontendPid]
    const groups = [this.#frontendPids, workerPids, parentPids]
    const spent = (): readonly number[] =>
      groups.map((pids) => pids.reduce((sum, pid) => sum + cpuMicros(pid), 0))
    const before = spent()
    const result = await load({ ...this.#spec(workload), seconds })
    const micros = spent().map((after, index) => after - (before[index] ?? 0))
    const requests = Math.max(1, result.requests)
    const [frontends = 0, workers = 0, parent = 0] = micros.map((each) => each / requests)
    const all = [...micros, result.cpuMicros].reduce((sum, each) => sum + each, 0)
    return {
      requestsPerSecond: (result.requests / result.elapsedMs) * 1000,
      ttftMsP50: result.ttftMs.p50,
      ttftMsP99: result.ttftMs.p99,
      failures: result.failures,
      frontends,
      workers,
      parent,
      clients: result.cpuMicros / requests,
      coresUsed: all / (result.elapsedMs * 1000),
    }
  }

  async stop(): Promise<void> {
    await this.#server.stop()
  }

  #spec(workload: Workload): LoadSpec {
    return { ...specOf(this.#server.port, workload), seconds: 120 }
  }
}
