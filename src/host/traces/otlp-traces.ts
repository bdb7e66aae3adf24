/**
 * Traces of frontends and workers, sent to an OTLP receiver. `open-traces.ts` loads this file, and with it
 * OpenTelemetry, only when tracing is on.
 */
import { RandomIdGenerator } from '@opentelemetry/sdk-trace-node'
import type { IdGenerator } from '@opentelemetry/sdk-trace-node'
import { otlpProvider } from './otlp-provider.ts'
import { RequestTraces } from './request-traces.ts'
import { TraceContexts } from './trace-context.ts'
import type { TraceContext } from './trace-context.ts'
import type { ReceiverOptions, Traces, TracesOptions, TracesOfWorkers } from './traces.ts'
import { WorkerTraces } from './worker-traces.ts'

export function otlpTraces(options: TracesOptions): Traces {
  const { clock, sampleRatio, decisionsOf } = options
  const ids = new GivenIds()
  const { tracer, close } = otlpProvider(options, ids)
  const identify = (own: TraceContext): void => ids.give(own)
  const requests = new RequestTraces({ clock, tracer, identify, decisionsOf })
  return { observe: requests.observe, begin: new TraceContexts(sampleRatio).begin, close }
}

export function otlpWorkerTraces(options: ReceiverOptions): TracesOfWorkers {
  const { tracer, close } = otlpProvider(options)
  return { observe: new WorkerTraces(tracer, options.clock).observe, close }
}

/** The span of a call has the id that workers and engines were given when the call started. */
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
