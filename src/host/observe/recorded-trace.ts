/**
 * The trace id of an exemplar: only for a request whose trace is sampled.
 */
import { isSampled, parseTraceparent } from '../traces/trace-context.ts'

const WELL_FORMED = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** Undefined: no trace, or one that is not sampled. The header is not trusted to be well formed. */
export function recordedTraceId(traceparent: string | undefined): string | undefined {
  if (traceparent === undefined || !WELL_FORMED.test(traceparent)) return undefined
  return isSampled(traceparent) ? parseTraceparent(traceparent).traceId : undefined
}
