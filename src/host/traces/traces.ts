/** What makes traces of calls, and what it needs. */
import type { Clock, WorkerId } from '../../base/index.ts'
import type { FrontendObserver } from '../../frontend/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { DecisionRecord } from '../../router/index.ts'
import type { WorkerEvent } from '../../worker/index.ts'

/** Where spans go, and as what. */
export interface ReceiverOptions {
  readonly clock: Clock
  /** `http://host:4318`, as in `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string
  readonly serviceName: string
  readonly version: string
  /** Spans could not be sent. */
  readonly onProblem: (message: string) => void
}

export interface TracesOptions extends ReceiverOptions {
  /** Of the calls whose client has not decided, 0 to 1. */
  readonly sampleRatio: number
  /** What the router has decided for a request, oldest first. */
  readonly decisionsOf: (requestId: string) => readonly DecisionRecord[]
}

export interface TracedWorker {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
}

/** Of all workers of a process, one after the other or side by side. */
export interface TracesOfWorkers {
  readonly observe: (event: WorkerEvent, worker: TracedWorker) => void
  /** Sends what waits, for a bounded time. Never rejects. */
  close(): Promise<void>
}

export interface Traces {
  readonly observe: FrontendObserver
  /** The `traceparent` of a call whose client sent this one. */
  readonly begin: (parent: string | undefined) => string
  /** Sends what waits, for a bounded time. Never rejects. */
  close(): Promise<void>
}
