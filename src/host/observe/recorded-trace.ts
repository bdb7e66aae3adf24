/**
 * The trace id that an exemplar names: of a request whose trace is recorded.
 */
import { isSampled, parseTraceparent } from '../traces/trace-context.ts'

const WELL_FORMED = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** Undefined: no trace, or one that nobody records. A worker does not know who has written what came with a request. */
export function recordedTraceId(traceparent: string | undefined): string | undefined {
  if (traceparent === undefined || !WELL_FORMED.test(traceparent)) return undefined
  return isSampled(traceparent) ? parseTraceparent(traceparent).traceId : undefined
}
