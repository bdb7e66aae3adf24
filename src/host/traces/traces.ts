/** What makes traces of calls, and what it needs. */
import type { Clock } from '../../base/index.ts'
import type { FrontendObserver } from '../../frontend/index.ts'
import type { DecisionRecord } from '../../router/index.ts'

export interface TracesOptions {
  readonly clock: Clock
  /** `http://host:4318`, as in `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string
  readonly serviceName: string
  readonly version: string
  /** Of the calls whose client has not decided, 0 to 1. */
  readonly sampleRatio: number
  /** What the router has decided for a request, oldest first. */
  readonly decisionsOf: (requestId: string) => readonly DecisionRecord[]
  /** Spans could not be sent. */
  readonly onProblem: (message: string) => void
}

export interface Traces {
  readonly observe: FrontendObserver
  /** The `traceparent` of a call whose client sent this one. */
  readonly begin: (parent: string | undefined) => string
  /** Sends what waits, for a bounded time. Never rejects. */
  close(): Promise<void>
}
