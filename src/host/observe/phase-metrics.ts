/**
 * Histograms of the phases of a request, one entry per metric: the event that it reads, its name, its help and the
 * value.
 *
 * A new metric of a phase is a new entry here and nothing else; docs/metrics.md is made from the registry.
 */
import type { Registry } from 'prom-client'
import type { FrontendEvent, FrontendEventOf, RequestFacts } from '../../frontend/index.ts'
import { osClock } from '../../os/index.ts'
import { recordedTraceId } from './recorded-trace.ts'
import { SeriesHistogram } from './series-histogram.ts'
import type { HistogramSeries } from './series-histogram.ts'

type Kind = FrontendEvent['kind']

/** Undefined: the event has no value for this metric. */
type ValueOf<Of extends Kind> = (event: FrontendEventOf<Of>) => number | undefined

interface PhaseMetric {
  readonly kind: Kind
  readonly name: string
  readonly help: string
  readonly buckets: readonly number[]
  readonly value: (event: FrontendEvent) => number | undefined
}

const PHASE_SECONDS = logBuckets(0.0001, 120, 18)
const BYTES = logBuckets(1024, 2 ** 34, 12)
const PROMPT_TOKENS = logBuckets(50, 128_000, 12)
const SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]

const METRICS: readonly PhaseMetric[] = [
  seconds(
    'tokenised',
    'tokenize',
    'From arrival until the prompt is tokenised: template and tokenizer',
    (event) => event.elapsedMs,
  ),
  seconds(
    'routed',
    'router_queue',
    'Wait of a leg (phase) for a worker with capacity',
    (event) => event.queuedMs,
  ),
  seconds('routed', 'route', 'Time to choose a worker for a leg', (event) => event.decisionMs),
  seconds(
    'prefillStarted',
    'prefill_queue',
    'From dispatch to the start of the prefill',
    (event) => event.queuedMs,
  ),
  seconds(
    'prefillDone',
    'prefill',
    'From the start of the prefill to the first token',
    (event) => event.elapsedMs,
  ),
  seconds(
    'kvTransferred',
    'kv_transfer',
    "Transfer of a prompt's KV to the decode worker",
    (event) => event.elapsedMs,
  ),
  histogram(
    'kvTransferred',
    'kv_transfer_bytes',
    'Bytes of KV transferred to the decode worker',
    BYTES,
    (event) => event.bytes,
  ),
  seconds(
    'decodeStarted',
    'decode_queue',
    'From dispatch to the start of the decode, without the KV transfer',
    (event) => event.queuedMs,
  ),
  histogram(
    'routed',
    'kv_hit_rate_predicted',
    "Share of the prompt's blocks that the router expects to be cached on the worker",
    SHARES,
    (event) =>
      event.phase === 'decode' ? undefined : share(event.overlapBlocks, event.promptBlocks),
  ),
  histogram(
    'ended',
    'kv_hit_rate',
    "Share of the prompt's tokens that were cached and not computed",
    SHARES,
    (event) => share(event.cachedTokens, event.promptTokens),
  ),
  seconds(
    'ended',
    'request_duration',
    'From arrival to the end of the request',
    (event) => event.durationMs,
    logBuckets(0.01, 512, 14),
  ),
  seconds(
    'ended',
    'time_to_first_token',
    'From arrival to the first token',
    (event) => event.ttftMs,
    logBuckets(0.001, 480, 18),
  ),
  seconds(
    'ended',
    'inter_token_latency',
    'Mean time between two tokens of a request',
    (event) => event.itlMs,
    logBuckets(0.001, 2, 13),
  ),
  histogram('ended', 'input_sequence_tokens', 'Prompt tokens', PROMPT_TOKENS, (event) =>
    unlessZero(event.promptTokens),
  ),
  histogram(
    'ended',
    'cached_tokens',
    'Cached prompt tokens',
    PROMPT_TOKENS,
    (event) => event.cachedTokens,
  ),
  histogram(
    'ended',
    'output_sequence_tokens',
    'Generated tokens',
    logBuckets(50, 32_000, 10),
    (event) => unlessZero(event.completionTokens),
  ),
]

/** Events that do not belong to a leg. */
const OF_NO_LEG: readonly Kind[] = ['tokenised', 'kvTransferred', 'ended']

interface KindMetric {
  readonly histogram: SeriesHistogram
  readonly value: PhaseMetric['value']
}

interface KindSeries {
  readonly series: HistogramSeries
  readonly value: PhaseMetric['value']
}

/** The metrics of one kind of event, and their series by phase and model. */
class KindMetrics {
  readonly metrics: KindMetric[] = []
  readonly #ofPhase = new Map<string | undefined, Map<string, readonly KindSeries[]>>()

  seriesOf(model: string, phase: string | undefined): readonly KindSeries[] {
    const known = this.#ofPhase.get(phase)?.get(model)
    if (known !== undefined) return known
    const labels = phase === undefined ? { model } : { model, phase }
    const made = this.metrics.map(({ histogram, value }) => ({
      series: histogram.series(labels),
      value,
    }))
    const ofPhase = this.#ofPhase.get(phase) ?? new Map<string, readonly KindSeries[]>()
    this.#ofPhase.set(phase, ofPhase.set(model, made))
    return made
  }

  forget(model: string): void {
    for (const ofModel of this.#ofPhase.values()) {
      for (const [at, { series }] of (ofModel.get(model) ?? []).entries()) {
        this.metrics[at]?.histogram.drop(series)
      }
      ofModel.delete(model)
    }
  }
}

export class PhaseMetrics {
  readonly #ofKind = new Map<Kind, KindMetrics>()

  readonly #epochMs: () => number

  constructor(registry: Registry, epochMs: () => number = () => osClock.epochMs()) {
    this.#epochMs = epochMs
    for (const { kind, name, help, buckets, value } of METRICS) {
      const histogram = new SeriesHistogram({
        name: `baton_frontend_${name}`,
        help,
        labelNames: OF_NO_LEG.includes(kind) ? ['model'] : ['model', 'phase'],
        buckets: [...buckets],
        registers: [registry],
      })
      const ofKind = this.#ofKind.get(kind) ?? new KindMetrics()
      ofKind.metrics.push({ histogram, value })
      this.#ofKind.set(kind, ofKind)
    }
  }

  /** A request whose trace is sampled becomes the exemplar of its buckets. */
  readonly observe = (event: FrontendEvent, { model, traceparent }: RequestFacts): void => {
    const ofKind = this.#ofKind.get(event.kind)
    if (ofKind === undefined) return
    const phase = 'phase' in event ? event.phase : undefined
    const traceId = recordedTraceId(traceparent)
    const epochMs = traceId === undefined ? 0 : this.#epochMs()
    for (const { series, value } of ofKind.seriesOf(model, phase)) {
      const seen = value(event)
      if (seen !== undefined) series.observe(seen, traceId, epochMs)
    }
  }

  forget(model: string): void {
    for (const ofKind of this.#ofKind.values()) ofKind.forget(model)
  }
}

function histogram<Of extends Kind>(
  kind: Of,
  name: string,
  help: string,
  buckets: readonly number[],
  value: ValueOf<Of>,
): PhaseMetric {
  return { kind, name, help, buckets, value: (event) => value(event as FrontendEventOf<Of>) }
}

function seconds<Of extends Kind>(
  kind: Of,
  name: string,
  help: string,
  milliseconds: ValueOf<Of>,
  buckets: readonly number[] = PHASE_SECONDS,
): PhaseMetric {
  return histogram(kind, `${name}_seconds`, help, buckets, (event) => {
    const ms = milliseconds(event)
    return ms === undefined ? undefined : ms / 1000
  })
}

function share(part: number | undefined, of: number): number | undefined {
  return part === undefined || of === 0 ? undefined : part / of
}

function unlessZero(count: number): number | undefined {
  return count === 0 ? undefined : count
}

/** `count` bounds with even spacing on a log scale, rounded to two significant figures. */
function logBuckets(min: number, max: number, count: number): number[] {
  const step = (max / min) ** (1 / (count - 1))
  const bounds = Array.from({ length: count }, (_, i) => Number((min * step ** i).toPrecision(2)))
  return [...new Set(bounds)]
}
