/**
 * Prometheus metrics of a worker, with the prefix `baton_worker_`. Values are counted once per request, never per
 * token; docs/metrics.md lists the names.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { unreachable } from '../../base/index.ts'
import type { EngineMetric } from '../../engine/index.ts'
import { osClock } from '../../os/index.ts'
import type { WorkerEvent, WorkerHealth } from '../../worker/index.ts'
import { engineMetricsText } from './engine-metrics-text.ts'
import { METRICS_TYPES, metricsFormat, OPEN_METRICS_END } from './metrics-page.ts'
import type { MetricsFormat, MetricsPage } from './metrics-page.ts'
import { openMetricsText } from './open-metrics-text.ts'
import { describeMetrics } from './metric-description.ts'
import type { MetricDescription } from './metric-description.ts'
import { recordedTraceId } from './recorded-trace.ts'
import { SeriesHistogram } from './series-histogram.ts'
import type { HistogramSeries } from './series-histogram.ts'
import { collectProcessMetrics } from './process-metrics.ts'

const SECONDS = [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300]

export class WorkerMetrics {
  readonly #registry = new Registry()
  readonly #labels: Readonly<Record<string, string>>
  readonly #ofEngine: () => readonly EngineMetric[]
  readonly #epochMs: () => number
  readonly #requests
  readonly #refused
  readonly #tokens
  readonly #duration
  readonly #queue
  readonly #firstToken
  readonly #stages
  readonly #kvOffers
  readonly #kvBytesOffered
  readonly #kvHeld
  readonly #kvBlocks
  readonly #kvBytesPulled
  readonly #kvPull
  readonly #kvRecomputed
  readonly #faults
  #kvHeldBytes = 0

  /** `health` and `ofEngine` are called at each scrape. */
  constructor(
    health: () => WorkerHealth,
    labels: Readonly<Record<string, string>> = {},
    ofEngine: () => readonly EngineMetric[] = () => [],
    epochMs: () => number = () => osClock.epochMs(),
  ) {
    this.#epochMs = epochMs
    this.#labels = labels
    this.#ofEngine = ofEngine
    this.#registry.setDefaultLabels(labels)
    collectProcessMetrics(this.#registry, 'baton_worker_')
    this.#requests = this.#counter('requests_total', 'Requests ended', ['outcome'])
    this.#refused = this.#counter('requests_refused_total', 'Requests not admitted', ['code'])
    this.#tokens = this.#counter('tokens_total', 'Tokens of ended requests', ['kind'])
    this.#duration = this.#ofRequests('request_seconds', 'From admission to the end')
    this.#queue = this.#ofRequests('queue_seconds', "From admission to the engine's start")
    this.#firstToken = this.#ofRequests(
      'first_token_seconds',
      "From the engine's start to the first token",
    )
    this.#stages = new Histogram({
      name: 'baton_worker_shutdown_stage_seconds',
      help: 'Duration of each stage of the shutdown',
      labelNames: ['stage', 'reason'],
      buckets: SECONDS,
      registers: [this.#registry],
    })
    this.#kvOffers = this.#counter('kv_offers_released_total', 'KV offers that have ended', [
      'reason',
    ])
    this.#kvBytesOffered = this.#counter('kv_bytes_offered_total', 'Bytes of offered KV', [])
    this.#kvHeld = this.#ofRequests('kv_offer_held_seconds', 'From a KV offer to its release')
    this.#kvBlocks = this.#counter('kv_blocks_taken_total', 'KV blocks received', ['how'])
    this.#kvBytesPulled = this.#counter('kv_bytes_pulled_total', 'Bytes of KV pulled', [])
    this.#kvPull = this.#ofRequests('kv_pull_seconds', "Time to receive a prompt's KV")
    this.#kvRecomputed = this.#counter(
      'kv_recomputed_total',
      'Prompts recomputed because their KV did not arrive',
      ['code'],
    )
    this.#faults = this.#counter(
      'engine_faults_total',
      'Engine stalls, faults, failed health probes',
      ['kind'],
    )
    this.#gauge('inflight_requests', 'Requests admitted and not yet freed', () => health().inFlight)
    this.#gauge(
      'kv_offers_open',
      'KV offers that no worker has pulled yet',
      () => health().openOffers,
    )
    this.#gauge('kv_held_bytes', 'Bytes of KV pinned for offers', () => this.#kvHeldBytes)
    this.#gauge('ready', '1 while the worker accepts requests', () => (health().ready ? 1 : 0))
  }

  readonly observe = (event: WorkerEvent): void => {
    switch (event.kind) {
      case 'request-ended':
        this.#requests.inc({ outcome: event.error?.code ?? event.finish ?? 'unknown' })
        this.#tokens.inc({ kind: 'prompt' }, event.promptTokens)
        this.#tokens.inc({ kind: 'output' }, event.outputTokens)
        this.#observeMs(this.#duration, event.elapsedMs, event.traceparent)
        return
      case 'request-started':
        this.#observeMs(this.#queue, event.queuedMs, event.traceparent)
        this.#observeMs(this.#firstToken, event.computeMs, event.traceparent)
        return
      case 'request-refused':
        this.#refused.inc({ code: event.error.code })
        return
      case 'stage':
        this.#stages.observe({ stage: event.stage, reason: event.reason }, event.elapsedMs / 1000)
        return
      case 'kv-offered':
        this.#kvBytesOffered.inc(event.kvBytes)
        this.#kvHeldBytes += event.kvBytes
        return
      case 'kv-released':
        this.#kvOffers.inc({ reason: event.reason })
        this.#observeMs(this.#kvHeld, event.heldMs, event.traceparent)
        this.#kvHeldBytes -= event.kvBytes
        return
      case 'kv-taken':
        this.#kvBlocks.inc({ how: 'pulled' }, event.blocksPulled)
        this.#kvBlocks.inc({ how: 'held' }, event.blocksHeld)
        this.#kvBytesPulled.inc(event.bytesPulled)
        this.#observeMs(this.#kvPull, event.elapsedMs, event.traceparent)
        return
      case 'kv-recomputed':
        this.#kvRecomputed.inc({ code: event.error.code })
        return
      case 'canary':
        if (!event.healthy) this.#faults.inc({ kind: 'canary' })
        return
      case 'engine-away':
        if (event.away) this.#faults.inc({ kind: 'engine-away' })
        return
      case 'engine-stalled':
      case 'engine-fault':
      case 'engine-abort-failed':
      case 'register-failed':
      case 'unregister-failed':
      case 'frontend-refused':
      case 'turned-away':
      case 'entry-restored':
      case 'renewal-failed':
      case 'model-unreadable':
        this.#faults.inc({ kind: event.kind })
        return
      case 'state':
      case 'discovery-told':
        return
      default:
        unreachable(event)
    }
  }

  async text(): Promise<string> {
    const ofEngine = this.#engineText('prometheus')
    return (await this.#registry.metrics()) + ofEngine
  }

  /** The page for a scrape with this `Accept` header. */
  async page(accept: string | undefined): Promise<MetricsPage> {
    const format = metricsFormat(accept)
    if (format === 'prometheus')
      return { contentType: METRICS_TYPES[format], body: await this.text() }
    const ofEngine = this.#engineText(format)
    const own = await openMetricsText(this.#registry, this.#labels)
    return { contentType: METRICS_TYPES[format], body: own + ofEngine + OPEN_METRICS_END }
  }

  /** An engine that fails to report its metrics is counted as a fault; the worker's own metrics are not affected. */
  #engineText(format: MetricsFormat): string {
    try {
      return engineMetricsText(this.#ofEngine(), this.#labels, format)
    } catch {
      this.#faults.inc({ kind: 'metrics' })
      return ''
    }
  }

  /** Every metric with its labels, for docs/metrics.md. */
  describe(): readonly MetricDescription[] {
    return describeMetrics(this.#registry)
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({
      name: `baton_worker_${name}`,
      help,
      labelNames,
      registers: [this.#registry],
    })
  }

  /** A histogram of requests: a request whose trace is sampled becomes the exemplar of its bucket. */
  #ofRequests(name: string, help: string): HistogramSeries {
    const histogram = new SeriesHistogram({
      name: `baton_worker_${name}`,
      help,
      buckets: SECONDS,
      registers: [this.#registry],
    })
    return histogram.series({})
  }

  #observeMs(series: HistogramSeries, elapsedMs: number, traceparent: string | undefined): void {
    const traceId = recordedTraceId(traceparent)
    series.observe(elapsedMs / 1000, traceId, traceId === undefined ? 0 : this.#epochMs())
  }

  #gauge(name: string, help: string, read: () => number): void {
    const gauge: Gauge = new Gauge({
      name: `baton_worker_${name}`,
      help,
      registers: [this.#registry],
      collect: () => gauge.set(read()),
    })
  }
}
