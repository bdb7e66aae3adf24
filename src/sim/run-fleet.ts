/**
 * A whole fleet under the virtual clock: the real router in front of simulated workers, fed by a trace.
 *
 * What is not modelled: the frontend's own time (tokenising, HTTP) and the network but for the delay of KV events and
 * the modelled KV transfer. A run is a function of its configuration.
 */
import { BatonError, seededRandom, workerIdOf } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import { createSchedulerConfig } from '../engine/index.ts'
import type { SchedulerOptions } from '../engine/index.ts'
import type {
  Chunk,
  DisaggregationMode,
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
  RoutedEvent,
} from '../request/index.ts'
import { createModelRouter } from '../router/index.ts'
import type { ModelRouter, RouterOptions } from '../router/index.ts'
import { FleetMeasure } from './fleet-report.ts'
import type { FleetGoal, FleetReport } from './fleet-report.ts'
import { FleetWorker } from './fleet-worker.ts'
import { promptTokens } from './trace-reader.ts'
import type { TraceRequest } from './trace-reader.ts'
import { VirtualClock } from './virtual-clock.ts'

export interface FleetGroup {
  readonly mode: DisaggregationMode
  readonly count: number
  readonly engine?: SchedulerOptions
}

export interface FleetConfig {
  readonly workers: readonly FleetGroup[]
  readonly trace: readonly TraceRequest[]
  readonly router?: RouterOptions
  /** Default: TTFT 5000 ms, TPOT 50 ms. */
  readonly goal?: FleetGoal
  /** Of the router's random choices. Default 0. */
  readonly seed?: number
  /** How late the router hears of KV events; null: the engines send none. Default 1. */
  readonly eventDelayMs?: number | null
  /** Workers that die: index in the order of `workers`, moment of the virtual time. */
  readonly deaths?: readonly { readonly worker: number; readonly atMs: number }[]
}

const MODEL = 'sim'

class FleetPlane implements RequestPlane {
  readonly workers = new Map<WorkerId, FleetWorker>()

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const worker = this.workers.get(workerId)
    if (worker !== undefined) return worker.send(request, sink)
    sink.onError(new BatonError('transport.cannot_connect', `no worker ${workerId}`))
    return { cancel: () => undefined }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

/** One client: measures what it sees. */
class FleetClient implements ReplySink {
  readonly #clock: VirtualClock
  readonly #measure: FleetMeasure
  readonly #arrivalMs: number
  #tokens = 0
  #firstMs = 0
  #lastMs = 0

  constructor(clock: VirtualClock, measure: FleetMeasure) {
    this.#clock = clock
    this.#measure = measure
    this.#arrivalMs = clock.nowMs()
  }

  onToken(_tokenId: number): void {
    const nowMs = this.#clock.nowMs()
    if (this.#tokens === 0) this.#firstMs = nowMs
    else this.#measure.gap(nowMs - this.#lastMs)
    this.#lastMs = nowMs
    this.#tokens += 1
  }

  onChunk(chunk: Chunk): void {
    for (const id of chunk.tokenIds) this.onToken(id)
    if (chunk.finish === undefined) return
    const nowMs = this.#clock.nowMs()
    if (chunk.finish === 'cancelled') this.#measure.failed('request.cancelled', nowMs)
    else {
      const ttftMs = this.#firstMs - this.#arrivalMs
      this.#measure.completed(ttftMs, nowMs - this.#arrivalMs, this.#tokens, nowMs)
    }
  }

  onError(error: BatonError): void {
    this.#measure.failed(error.code, this.#clock.nowMs())
  }

  onRouted(event: RoutedEvent): void {
    if (event.phase === 'prefill') this.#measure.disaggregated()
  }
}

export function runFleet(config: FleetConfig): FleetReport {
  const clock = new VirtualClock()
  const plane = new FleetPlane()
  const router = createModelRouter({
    plane,
    clock,
    random: seededRandom(config.seed ?? 0),
    ...(config.router === undefined ? {} : { config: config.router }),
  })
  const workers = createWorkers(config, clock, router)
  for (const worker of workers) {
    plane.workers.set(worker.workerId, worker)
    router.fleet.workerJoined(worker.card(MODEL))
  }
  for (const { worker, atMs } of config.deaths ?? []) {
    const victim = workers[worker]
    if (victim === undefined) throw new BatonError('config.invalid', `deaths: no worker ${worker}`)
    clock.after(atMs, () => {
      victim.kill()
      router.fleet.workerLeft(victim.workerId, 'died')
    })
  }
  const measure = new FleetMeasure(config.goal ?? { ttftMs: 5000, tpotMs: 50 })
  feed(config.trace, clock, router, measure)
  while (measure.ended < config.trace.length && clock.fireNext());
  const leftBookings = countBookings(router)
  router.close()
  return measure.report(
    { requests: config.trace.length, startMs: config.trace[0]?.atMs ?? 0, leftBookings },
    workers.map(({ workerId, mode, totals }) => ({ workerId, mode, ...totals, utilisation: 0 })),
  )
}

/** What the router still believes to be under way. */
function countBookings(router: ModelRouter): number {
  const { prefill, decode } = router.status()
  return [prefill, decode].reduce((sum, pool) => sum + pool.activeRequests + pool.queuedRequests, 0)
}

function createWorkers(
  config: FleetConfig,
  clock: VirtualClock,
  router: ModelRouter,
): FleetWorker[] {
  const workers: FleetWorker[] = []
  for (const { mode, count, engine } of config.workers) {
    const scheduler = createSchedulerConfig(engine)
    for (let i = 0; i < count; i++) {
      workers.push(
        new FleetWorker({
          workerId: workerIdOf(workers.length + 1),
          mode,
          config: scheduler,
          clock,
          fleet: router.fleet,
          eventDelayMs: config.eventDelayMs === undefined ? 1 : config.eventDelayMs,
        }),
      )
    }
  }
  return workers
}

/** Only the next arrival has a timer: a trace may be long. */
function feed(
  trace: readonly TraceRequest[],
  clock: VirtualClock,
  router: ModelRouter,
  measure: FleetMeasure,
): void {
  let next = 0
  const arrive = (): void => {
    while (next < trace.length && trace[next]!.atMs <= clock.nowMs()) {
      const request = trace[next]!
      next += 1
      router.service.send(requestOf(request, next), new FleetClient(clock, measure))
    }
    if (next < trace.length) clock.after(trace[next]!.atMs - clock.nowMs(), arrive)
  }
  clock.after(0, arrive)
}

function requestOf(request: TraceRequest, number: number): GenerateRequest {
  return {
    requestId: `trace-${number}`,
    model: MODEL,
    tokenIds: promptTokens(request),
    sampling: {},
    stop: { maxTokens: request.outputTokens, ignoreEos: true },
    output: {},
    eosTokenIds: [],
    routing: {},
  }
}
