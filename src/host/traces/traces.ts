/** The interfaces of tracing and what they need. */
import type { Clock, WorkerId } from '../../base/index.ts'
import type { FrontendObserver } from '../../frontend/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { DecisionRecord } from '../../router/index.ts'
import type { WorkerEvent } from '../../worker/index.ts'

/** Where spans are sent, and under which names. */
export interface ReceiverOptions {
  readonly clock: Clock
  /** `http://host:4318`, as in `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string
  readonly serviceName: string
  readonly version: string
  /** Called when spans could not be sent. */
  readonly onProblem: (message: string) => void
}

export interface TracesOptions extends ReceiverOptions {
  /** Sampled share, 0 to 1, of calls whose client has not decided. */
  readonly sampleRatio: number
  /** The router's decisions for a request, oldest first. */
  readonly decisionsOf: (requestId: string) => readonly DecisionRecord[]
}

export interface TracedWorker {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
}

/** For all workers of a process, successive or simultaneous. */
export interface TracesOfWorkers {
  readonly observe: (event: WorkerEvent, worker: TracedWorker) => void
  /** Sends waiting spans, for a bounded time. Never rejects. */
  close(): Promise<void>
}

export interface Traces {
  readonly observe: FrontendObserver
  /** Returns the `traceparent` of a call whose client sent `parent`. */
  readonly begin: (parent: string | undefined) => string
  /** Sends waiting spans, for a bounded time. Never rejects. */
  close(): Promise<void>
}
