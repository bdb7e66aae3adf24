/**
 * Traces to an OTLP receiver over HTTP. Only this file and `request-traces.ts` load OpenTelemetry, and `open-traces.ts`
 * loads them only when traces are asked for.
 *
 * Spans wait in a bounded queue and go out in batches; what does not fit, or what the receiver does not take, is dropped
 * and told, at most once a minute.
 */
import { diag, DiagLogLevel } from '@opentelemetry/api'
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
import { RequestTraces } from './request-traces.ts'
import { TraceContexts } from './trace-context.ts'
import type { TraceContext } from './trace-context.ts'
import type { Traces, TracesOptions } from './traces.ts'

const TOLD_EVERY_MS = 60_000
const EXPORT_TIMEOUT_MS = 5_000
/** A receiver that is away does not hold the end of the process up. */
const CLOSE_MS = 2_000

export function otlpTraces(options: TracesOptions): Traces {
  const { clock, endpoint, sampleRatio, serviceName, version, decisionsOf } = options
  tellProblems(options)
  const ids = new GivenIds()
  const exporter = new OTLPTraceExporter({
    url: urlOf(endpoint),
    timeoutMillis: EXPORT_TIMEOUT_MS,
  })
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      [ATTR_SERVICE_NAME]: serviceName,
      [ATTR_SERVICE_VERSION]: version,
    }),
    sampler: new AlwaysOnSampler(),
    idGenerator: ids,
    spanProcessors: [new BatchSpanProcessor(exporter)],
  })
  const requests = new RequestTraces({
    clock,
    tracer: provider.getTracer('baton', version),
    identify: (own) => ids.give(own),
    decisionsOf,
  })
  return {
    observe: requests.observe,
    begin: new TraceContexts(sampleRatio).begin,
    close: async () => {
      await withDeadline(clock, CLOSE_MS, provider.shutdown()).catch(() => undefined)
    },
  }
}

/** The standard's address of a receiver is the base of its paths. */
function urlOf(endpoint: string): string {
  const base = endpoint.replace(/\/+$/, '')
  return base.endsWith('/v1/traces') ? base : `${base}/v1/traces`
}

function tellProblems({ clock, onProblem }: TracesOptions): void {
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

/** The span of a call has the identity that workers and engines were told when the call began. */
class GivenIds implements IdGenerator {
  readonly #random = new RandomIdGenerator()
  #traceId: string | null = null
  #spanId: string | null = null

  give({ traceId, spanId }: TraceContext): void {
    this.#traceId = traceId
    this.#spanId = spanId
  }

  generateTraceId(): string {
    return this.#traceId ?? this.#random.generateTraceId()
  }

  generateSpanId(): string {
    const given = this.#spanId
    this.#spanId = null
    return given ?? this.#random.generateSpanId()
  }
}
