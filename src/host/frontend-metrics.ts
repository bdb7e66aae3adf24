/**
 * What the frontend reports, as Prometheus metrics. Names and labels are the field's, with the prefix `baton_`.
 *
 * Everything is counted once per request, never once per token; docs/metrics.md lists the names.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { FrontendObserver, RequestEnd, RequestFacts } from '../frontend/index.ts'
import type { RouterStatus } from '../router/index.ts'
import { describeMetrics } from './metric-description.ts'
import type { MetricDescription } from './metric-description.ts'
import { RoutedLegs } from './routed-legs.ts'

interface FrontendMetricsOptions {
  /** Asked at each scrape: the router's own view of every model. */
  readonly routers: () => readonly (readonly [model: string, status: RouterStatus])[]
}

const LOOP_INTERVAL_MS = 20

/** `count` bounds spaced evenly on a log scale, two significant figures. */
function logBuckets(min: number, max: number, count: number): number[] {
  const step = (max / min) ** (1 / (count - 1))
  const bounds = Array.from({ length: count }, (_, i) => Number((min * step ** i).toPrecision(2)))
  return [...new Set(bounds)]
}

export class FrontendMetrics implements FrontendObserver {
  readonly #registry = new Registry()
  readonly #loopDelay = monitorEventLoopDelay({ resolution: LOOP_INTERVAL_MS })
  readonly #requests
  readonly #started
  readonly #inflight
  readonly #duration
  readonly #promptTokens
  readonly #cachedTokens
  readonly #outputTokens
  readonly #outputTokensTotal
  readonly #ttft
  readonly #itl
  readonly #migrations
  readonly #cancellations
  readonly #rejections
  readonly #routed

  constructor(options: FrontendMetricsOptions) {
    const counter = (name: string, help: string, labelNames: string[]) =>
      new Counter({ name: `baton_frontend_${name}`, help, labelNames, registers: [this.#registry] })
    const histogram = (name: string, help: string, buckets: number[]) =>
      new Histogram({
        name: `baton_frontend_${name}`,
        help,
        labelNames: ['model'],
        buckets,
        registers: [this.#registry],
      })
    const ends = ['model', 'endpoint', 'request_type', 'status', 'error_type']
    this.#requests = counter('requests_total', 'Requests that have ended', ends)
    this.#started = counter('requests_started_total', 'Requests accepted', ends.slice(0, 3))
    this.#inflight = new Gauge({
      name: 'baton_frontend_inflight_requests',
      help: 'Requests between arrival and end',
      labelNames: ['model'],
      registers: [this.#registry],
    })
    this.#duration = histogram(
      'request_duration_seconds',
      'Arrival to end',
      logBuckets(0.01, 512, 14),
    )
    this.#promptTokens = histogram(
      'input_sequence_tokens',
      'Prompt tokens',
      logBuckets(50, 128_000, 12),
    )
    this.#cachedTokens = histogram(
      'cached_tokens',
      'Prompt tokens not computed again',
      logBuckets(50, 128_000, 12),
    )
    this.#outputTokens = histogram(
      'output_sequence_tokens',
      'Generated tokens',
      logBuckets(50, 32_000, 10),
    )
    this.#outputTokensTotal = counter('output_tokens_total', 'Generated tokens', ['model'])
    this.#ttft = histogram(
      'time_to_first_token_seconds',
      'Arrival to first token',
      logBuckets(0.001, 480, 18),
    )
    this.#itl = histogram(
      'inter_token_latency_seconds',
      'Mean time between tokens of a request',
      logBuckets(0.001, 2, 13),
    )
    this.#migrations = counter('model_migration_total', 'Requests carried on at another worker', [
      'model',
      'kind',
    ])
    this.#cancellations = counter(
      'model_cancellation_total',
      'Requests whose client left',
      ends.slice(0, 3),
    )
    this.#rejections = counter(
      'model_rejection_total',
      'Requests refused for load',
      ends.slice(0, 2),
    )
    this.#routed = new RoutedLegs(this.#registry)
    this.#collectRouters(options)
    this.#collectProcess()
  }

  async text(): Promise<string> {
    return await this.#registry.metrics()
  }

  /** Every metric with its labels, for docs/metrics.md. */
  describe(): readonly MetricDescription[] {
    return describeMetrics(this.#registry)
  }

  close(): void {
    this.#loopDelay.disable()
  }

  requestStarted(facts: RequestFacts): void {
    this.#started.inc(labelsOf(facts))
    this.#inflight.inc({ model: facts.model })
  }

  routed: NonNullable<FrontendObserver['routed']> = ({ model, phase, workerId }) => {
    this.#routed.count({ model, phase, worker_id: workerId })
  }

  migrated: NonNullable<FrontendObserver['migrated']> = ({ model, kind }) => {
    this.#migrations.inc({ model, kind })
  }

  requestEnded(end: RequestEnd): void {
    const { model } = end
    this.#inflight.dec({ model })
    const status = end.outcome === 'success' ? 'success' : 'error'
    this.#requests.inc({ ...labelsOf(end), status, error_type: end.errorCode ?? '' })
    this.#duration.observe({ model }, end.durationMs / 1000)
    if (end.promptTokens > 0) this.#promptTokens.observe({ model }, end.promptTokens)
    if (end.cachedTokens !== undefined) this.#cachedTokens.observe({ model }, end.cachedTokens)
    if (end.completionTokens > 0) {
      this.#outputTokens.observe({ model }, end.completionTokens)
      this.#outputTokensTotal.inc({ model }, end.completionTokens)
    }
    if (end.ttftMs !== undefined) this.#ttft.observe({ model }, end.ttftMs / 1000)
    if (end.itlMs !== undefined) this.#itl.observe({ model }, end.itlMs / 1000)
    if (end.outcome === 'cancelled') this.#cancellations.inc(labelsOf(end))
    if (end.errorCode?.startsWith('capacity.') === true) {
      this.#rejections.inc({ model, endpoint: end.endpoint })
    }
  }

  #collectRouters(options: FrontendMetricsOptions): void {
    const labelNames = ['model', 'worker_id', 'dp_rank', 'worker_type']
    const perRank = (name: string, help: string) =>
      new Gauge({ name: `baton_frontend_${name}`, help, labelNames, registers: [this.#registry] })
    const blocks = perRank(
      'worker_active_decode_blocks',
      'KV blocks that the router counts as active',
    )
    const prefillTokens = perRank(
      'worker_active_prefill_tokens',
      'Prompt tokens that the router counts as in prefill',
    )
    const queued = new Gauge({
      name: 'baton_frontend_router_queue_pending_requests',
      help: 'Requests that wait for a worker',
      labelNames: ['model', 'worker_type'],
      registers: [this.#registry],
      collect: () => {
        blocks.reset()
        prefillTokens.reset()
        const workerIds = new Set<string>()
        for (const [model, status] of options.routers()) {
          for (const type of ['prefill', 'decode'] as const) {
            queued.set({ model, worker_type: type }, status[type].queuedRequests)
            for (const rank of status[type].ranks) {
              const labels = {
                model,
                worker_id: rank.workerId,
                dp_rank: rank.dpRank,
                worker_type: type,
              }
              blocks.set(labels, rank.activeDecodeBlocks)
              prefillTokens.set(labels, rank.activePrefillTokens)
              workerIds.add(rank.workerId)
            }
          }
        }
        this.#routed.keep(workerIds)
      },
    })
  }

  #collectProcess(): void {
    collectDefaultMetrics({
      register: this.#registry,
      eventLoopMonitoringPrecision: 100,
      prefix: 'baton_frontend_',
    })
    this.#loopDelay.enable()
    const delay = new Gauge({
      name: 'baton_frontend_event_loop_delay_p99_seconds',
      help: 'Delay of the event loop since the last scrape, 99th percentile',
      registers: [this.#registry],
      collect: () => {
        // What is measured is the time between two ticks of a timer: its interval is no delay.
        const late = this.#loopDelay.percentile(99) / 1e9 - LOOP_INTERVAL_MS / 1000
        delay.set(Math.max(0, late))
        this.#loopDelay.reset()
      },
    })
  }
}

function labelsOf(facts: RequestFacts): { model: string; endpoint: string; request_type: string } {
  const { model, endpoint, streamed } = facts
  return { model, endpoint, request_type: streamed ? 'stream' : 'unary' }
}
