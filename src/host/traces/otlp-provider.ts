/**
 * Sends spans of a frontend or a worker to an OTLP receiver over HTTP.
 *
 * Spans wait in a bounded queue and are sent in batches. Spans that do not fit, or that the receiver refuses, are
 * dropped and reported at most once a minute.
 */
import { diag, DiagLogLevel } from '@opentelemetry/api'
import type { Tracer } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  RandomIdGenerator,
} from '@opentelemetry/sdk-trace-node'
import type { IdGenerator } from '@opentelemetry/sdk-trace-node'
import { ATTR_SERVICE_NAME, ATTR_SERVICE_VERSION } from '@opentelemetry/semantic-conventions'
import { withDeadline } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { ReceiverOptions } from './traces.ts'

const TOLD_EVERY_MS = 60_000
const EXPORT_TIMEOUT_MS = 5_000
/** A receiver that does not answer delays the end of the process by at most this time. */
const CLOSE_MS = 2_000

interface OtlpProvider {
  readonly tracer: Tracer
  /** Sends waiting spans, for a bounded time. Never rejects. */
  readonly close: () => Promise<void>
}

/** Sampling was decided before: every span that is started is sent. */
export function otlpProvider(
  options: ReceiverOptions,
  ids: IdGenerator = new RandomIdGenerator(),
): OtlpProvider {
  const { clock, endpoint, serviceName, version } = options
  tellProblems(clock, options.onProblem)
  const exporter = new OTLPTraceExporter({
    url: urlOf(endpoint),
    timeoutMillis: EXPORT_TIMEOUT_MS,
  })
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      [ATTR_SERVICE_NAME]: serviceName,
      [ATTR_SERVICE_VERSION]: version,
      'process.pid': process.pid,
    }),
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    spanProcessors: [new BatchSpanProcessor(exporter)],
  })
  return {
    tracer: provider.getTracer('baton', version),
    close: async () => {
      await withDeadline(clock, CLOSE_MS, provider.shutdown()).catch(() => undefined)
    },
  }
}

/** By the standard the endpoint is the base of the receiver's paths. */
function urlOf(endpoint: string): string {
  const base = endpoint.replace(/\/+$/, '')
  return base.endsWith('/v1/traces') ? base : `${base}/v1/traces`
}

function tellProblems(clock: Clock, onProblem: (message: string) => void): void {
  let toldMs = -Infinity
  const tell = (message: string, ...details: unknown[]): void => {
    const nowMs = clock.nowMs()
    if (nowMs - toldMs < TOLD_EVERY_MS) return
    toldMs = nowMs
    onProblem([message, ...details.map(String)].join(' '))
  }
  const ignore = (): void => undefined
  const logger = { error: tell, warn: tell, info: ignore, debug: ignore, verbose: ignore }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
}
