/**
 * Prometheus metrics of the frontend, with the prefix `baton_` and the usual names and labels.
 *
 * Values are counted once per request, never per token. docs/metrics.md lists the names.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Counter, Gauge, Registry } from 'prom-client'
import type { FrontendObserver, RequestEnd, RequestFacts } from '../../frontend/index.ts'
import type { RouterStatus } from '../../router/index.ts'
import { Departures } from './departures.ts'
import { goalOutcomes } from './goal-outcomes.ts'
import { LabelledCounts } from './labelled-counts.ts'
import { describeMetrics } from './metric-description.ts'
import type { MetricDescription } from './metric-description.ts'
import { METRICS_TYPES, metricsFormat, OPEN_METRICS_END } from './metrics-page.ts'
import type { MetricsPage } from './metrics-page.ts'
import { openMetricsText } from './open-metrics-text.ts'
import { PhaseMetrics } from './phase-metrics.ts'
import { RankMetrics } from './rank-metrics.ts'
import { RoleMetrics } from './role-metrics.ts'
import { RoutedLegs } from './routed-legs.ts'
import { collectProcessMetrics } from './process-metrics.ts'

interface FrontendMetricsOptions {
  /** The router's status of every model, read at each scrape. */
  readonly routers: () => readonly (readonly [model: string, status: RouterStatus])[]
  /** The target for the time to first token. */
  readonly ttftGoalMs?: number
}

const LOOP_INTERVAL_MS = 20

export class FrontendMetrics {
  readonly #registry = new Registry()
  /** Counts whose first label is the model. */
  readonly #ofModel: LabelledCounts[] = []
  /** Those that have series. */
  readonly #models = new Set<string>()
  readonly #departures = new Departures()
  readonly #loopDelay = monitorEventLoopDelay({ resolution: LOOP_INTERVAL_MS })
  readonly #requests
  readonly #started
  readonly #inflight
  readonly #outputTokensTotal
  readonly #migrations
  readonly #cancellations
  readonly #rejections
  readonly #goals
  readonly #routed
  readonly #phases
  readonly #readRouters: () => void

  constructor(options: FrontendMetricsOptions) {
    const counter = (name: string, help: string, labelNames: string[]): LabelledCounts => {
      const counts = new LabelledCounts(labelNames)
      this.#ofModel.push(counts)
      new Counter({
        name: `baton_frontend_${name}`,
        help,
        labelNames,
        registers: [this.#registry],
        collect() {
          counts.writeTo(this)
        },
      })
      return counts
    }
    const ends = ['model', 'endpoint', 'request_type', 'status', 'error_type']
    this.#requests = counter('requests_total', 'Requests that have ended', ends)
    this.#started = counter('requests_started_total', 'Requests accepted', ends.slice(0, 3))
    const inflight = new LabelledCounts(['model'])
    new Gauge({
      name: 'baton_frontend_inflight_requests',
      help: 'Requests between arrival and end',
      labelNames: ['model'],
      registers: [this.#registry],
      collect() {
        inflight.writeTo(this)
      },
    })
    this.#inflight = inflight
    this.#ofModel.push(inflight)
    this.#outputTokensTotal = counter('output_tokens_total', 'Generated tokens', ['model'])
    this.#migrations = counter(
      'model_migration_total',
      'Migrations of a request to another worker',
      ['model', 'kind'],
    )
    this.#cancellations = counter(
      'model_cancellation_total',
      'Requests whose client disconnected',
      ends.slice(0, 3),
    )
    this.#rejections = counter(
      'model_rejection_total',
      'Requests refused because of load',
      ends.slice(0, 2),
    )
    this.#goals = counter(
      'goals_total',
      'Latency goals of requests that have ended, by outcome: met, missed, refused',
      ['model', 'goal', 'outcome'],
    )
    this.#routed = new RoutedLegs(this.#registry)
    this.#phases = new PhaseMetrics(this.#registry)
    this.#readRouters = this.#collectRouters(options)
    this.#collectProcess()
  }

  async text(): Promise<string> {
    this.#readRouters()
    return await this.#registry.metrics()
  }

  /** The page for a scrape with this `Accept` header. */
  async page(accept: string | undefined): Promise<MetricsPage> {
    const format = metricsFormat(accept)
    const body =
      format === 'prometheus' ? await this.text() : (await this.#openText()) + OPEN_METRICS_END
    return { contentType: METRICS_TYPES[format], body }
  }

  async #openText(): Promise<string> {
    this.#readRouters()
    return await openMetricsText(this.#registry)
  }

  /** Every metric with its labels, for docs/metrics.md. */
  describe(): readonly MetricDescription[] {
    return describeMetrics(this.#registry)
  }

  close(): void {
    this.#loopDelay.disable()
  }

  readonly observe: FrontendObserver = (event, request) => {
    this.#phases.observe(event, request)
    const { model } = request
    switch (event.kind) {
      case 'received':
        // Requests for unknown models have no model, and their series stay.
        if (model !== '') this.#models.add(model)
        this.#started.add(1, model, request.endpoint, typeOf(request))
        this.#inflight.add(1, model)
        return
      case 'routed':
        this.#routed.count({ model, phase: event.phase, worker_id: event.workerId })
        return
      case 'migrated':
        this.#migrations.add(1, model, event.request)
        return
      case 'ended':
        this.#countEnd(event, request)
        return
      default:
    }
  }

  /** Drops the series of models that are not served any more. */
  #forgetModels(served: ReadonlySet<string>): void {
    const idle = [...this.#models].filter((model) => this.#inflight.countOf(model) === 0)
    for (const model of this.#departures.among(idle, served)) {
      for (const counts of this.#ofModel) counts.removeAll(model)
      this.#phases.forget(model)
      this.#models.delete(model)
    }
  }

  #countEnd(end: RequestEnd, request: RequestFacts): void {
    const { model, endpoint } = request
    const type = typeOf(request)
    this.#inflight.add(-1, model)
    const status = end.outcome === 'success' ? 'success' : 'error'
    this.#requests.add(1, model, endpoint, type, status, end.errorCode ?? '')
    if (end.completionTokens > 0) this.#outputTokensTotal.add(end.completionTokens, model)
    if (end.outcome === 'cancelled') this.#cancellations.add(1, model, endpoint, type)
    for (const { goal, outcome } of goalOutcomes(end)) this.#goals.add(1, model, goal, outcome)
    if (end.errorCode?.startsWith('capacity.') === true) this.#rejections.add(1, model, endpoint)
  }

  /** Called before a page is made: a value that is read while the page is made would be missing on it. */
  #collectRouters(options: FrontendMetricsOptions): () => void {
    const ranks = new RankMetrics(this.#registry)
    const roles = new RoleMetrics(this.#registry, options.ttftGoalMs ?? null)
    const labelNames = ['model', 'worker_type']
    const errors = new Gauge({
      name: 'baton_frontend_router_ttft_error_ratio',
      help: 'Error of the predicted time to first token: 1 means a factor of two too long or too short (geometric mean, newer requests weigh more)',
      labelNames,
      registers: [this.#registry],
    })
    const queued = new Gauge({
      name: 'baton_frontend_router_queue_pending_requests',
      help: 'Requests that wait for a worker',
      labelNames,
      registers: [this.#registry],
    })
    return () => {
      const routers = options.routers()
      errors.reset()
      queued.reset()
      for (const [model, status] of routers) {
        for (const type of ['prefill', 'decode'] as const) {
          const { queuedRequests, ttftError } = status[type]
          queued.set({ model, worker_type: type }, queuedRequests)
          if (ttftError !== null) errors.set({ model, worker_type: type }, ttftError)
        }
      }
      roles.read(routers)
      this.#routed.keep(ranks.read(routers))
      this.#forgetModels(new Set(routers.map(([model]) => model)))
    }
  }

  #collectProcess(): void {
    collectProcessMetrics(this.#registry, 'baton_frontend_', { eventLoopMonitoringPrecision: 100 })
    this.#loopDelay.enable()
    const delay = new Gauge({
      name: 'baton_frontend_event_loop_delay_p99_seconds',
      help: 'Delay of the event loop since the last scrape, 99th percentile',
      registers: [this.#registry],
      collect: () => {
        // The histogram measures the time between two ticks of a timer, so its interval is subtracted.
        const late = this.#loopDelay.percentile(99) / 1e9 - LOOP_INTERVAL_MS / 1000
        delay.set(Math.max(0, late))
        this.#loopDelay.reset()
      },
    })
  }
}

function typeOf({ streamed }: RequestFacts): string {
  return streamed ? 'stream' : 'unary'
}
