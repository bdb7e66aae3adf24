/**
 * The state of a fleet over time: periodic samples of running, waiting and busy counts.
 */
import type { WorkerId } from '../../base/index.ts'
import type { Timer } from '../../base/index.ts'
import type { Fleet } from './fleet.ts'
import type { RequestLog } from '../report/request-log.ts'

export interface WorkerSample {
  readonly workerId: WorkerId
  readonly running: number
  readonly queued: number
  readonly activeBlocks: number
  /** Share of the time since the last sample in which it computed. */
  readonly busy: number
}

export interface TelemetrySample {
  readonly atMs: number
  /** In the routers' queues. */
  readonly queuedRequests: number
  /** Booked by the routers. */
  readonly activeRequests: number
  readonly ended: number
  readonly workers: readonly WorkerSample[]
}

export class Telemetry {
  readonly samples: TelemetrySample[] = []
  readonly #fleet: Fleet
  readonly #log: RequestLog
  readonly #everyMs: number
  readonly #busyMs = new Map<WorkerId, number>()
  #timer: Timer | null = null

  constructor(fleet: Fleet, log: RequestLog, everyMs: number) {
    this.#fleet = fleet
    this.#log = log
    this.#everyMs = everyMs
  }

  start(): void {
    if (this.#everyMs <= 0) return
    this.#timer = this.#fleet.clock.after(this.#everyMs, () => {
      this.#take()
      this.start()
    })
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #take(): void {
    const { frontends, workers, clock } = this.#fleet
    clock.settleRuns()
    const pools = frontends.flatMap(({ router }) => {
      const { prefill, decode } = router.status()
      return [prefill, decode]
    })
    this.samples.push({
      atMs: clock.nowMs(),
      queuedRequests: pools.reduce((sum, pool) => sum + pool.queuedRequests, 0),
      activeRequests: pools.reduce((sum, pool) => sum + pool.activeRequests, 0),
      ended: this.#log.endedCount,
      workers: workers
        .filter(({ isAlive }) => isAlive)
        .map(({ workerId, load, count }) => {
          const busyMs = count.busyMs - (this.#busyMs.get(workerId) ?? 0)
          this.#busyMs.set(workerId, count.busyMs)
          return { workerId, ...load, busy: Math.min(1, busyMs / this.#everyMs) }
        }),
    })
  }
}
