/**
 * The observer that makes one trace of every sampled call: the span of the call, and below it the spans of
 * `PHASE_SPANS`. A call that is not sampled costs one check of its `traceparent` per event.
 */
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { Context, Link, Span, SpanContext, Tracer } from '@opentelemetry/api'
import { InFlightMap } from '../../base/index.ts'
import type { Clock, WorkerId } from '../../base/index.ts'
import type { FrontendEvent, RequestEnd, RequestFacts } from '../../frontend/index.ts'
import type { DecisionRecord } from '../../router/index.ts'
import { legAttributes, PHASE_SPANS, workerOf } from './phase-spans.ts'
import { RecordedCall } from './recorded-call.ts'
import { callAttributes, operationOf } from './span-attributes.ts'
import { isSampled, parseTraceparent } from './trace-context.ts'
import type { TraceContext } from './trace-context.ts'

interface RequestTracesOptions {
  readonly clock: Clock
  readonly tracer: Tracer
  /** Sets the id of the next span that is started. */
  readonly identify: (own: TraceContext) => void
  readonly decisionsOf: (requestId: string) => readonly DecisionRecord[]
}

export class RequestTraces {
  readonly #options: RequestTracesOptions
  readonly #calls = new InFlightMap<string, RecordedCall>()

  constructor(options: RequestTracesOptions) {
    this.#options = options
  }

  readonly observe = (event: FrontendEvent, facts: RequestFacts): void => {
    const { traceparent, requestId } = facts
    if (traceparent === undefined || !isSampled(traceparent)) return
    if (event.kind === 'received') {
      const decisions = (): readonly DecisionRecord[] => this.#options.decisionsOf(requestId)
      this.#calls.set(requestId, new RecordedCall(facts, decisions))
    }
    const call = this.#calls.get(requestId)
    call?.add(event)
    if (event.kind !== 'ended' || call === undefined) return
    this.#calls.delete(requestId)
    this.#draw(call, event, parseTraceparent(traceparent))
  }

  /** The events have a monotonic clock, spans the time of day. */
  #draw(call: RecordedCall, end: RequestEnd, own: TraceContext): void {
    const { clock } = this.#options
    const epoch = (atMs: number): number => clock.epochMs() - clock.nowMs() + atMs
    const offsetMs = epoch(0)
    const root = this.#root(call, end, own, offsetMs)
    this.#phases(call, trace.setSpan(ROOT_CONTEXT, root), offsetMs)
    root.end(offsetMs + end.atMs)
  }

  #root(call: RecordedCall, end: RequestEnd, own: TraceContext, offsetMs: number): Span {
    const { identify, tracer } = this.#options
    const { facts } = call
    identify(own)
    const root = tracer.startSpan(
      `${operationOf(facts.endpoint)} ${facts.model}`.trimEnd(),
      {
        kind: SpanKind.SERVER,
        startTime: offsetMs + end.atMs - end.durationMs,
        attributes: {
          ...callAttributes(facts, end),
          ...(call.dropped === 0 ? {} : { 'baton.trace.events_dropped': call.dropped }),
        },
      },
      parentOf(facts),
    )
    for (const event of call.events) {
      if (event.kind === 'firstToken') root.addEvent('first_token', {}, offsetMs + event.atMs)
    }
    // By the HTTP conventions a client error is not an error of the server.
    if (end.outcome === 'error' && end.status !== 200 && end.status < 500) return root
    if (end.outcome === 'error') {
      root.setStatus({ code: SpanStatusCode.ERROR, message: end.errorCode ?? 'error' })
    }
    return root
  }

  #phases(call: RecordedCall, parent: Context, offsetMs: number): void {
    const lastOf = new Map<WorkerId, SpanContext>()
    let lost: Link[] = []
    for (const event of call.events) {
      const worker = workerOf(event)
      for (const { kind, name, times, attributes } of PHASE_SPANS) {
        const at = kind === event.kind ? times(event, call) : undefined
        if (at === undefined) continue
        const isHeir = name === 'migrate' || name === 'route'
        if (event.kind === 'migrated') lost = linksTo(worker && lastOf.get(worker))
        const span = this.#options.tracer.startSpan(
          name,
          {
            startTime: offsetMs + at.fromMs,
            attributes: { ...legAttributes(event), ...attributes(event, call) },
            links: isHeir ? lost : [],
          },
          parent,
        )
        span.end(offsetMs + Math.max(at.fromMs, at.toMs))
        if (name === 'route') lost = []
        if (worker !== undefined && event.kind !== 'migrated')
          lastOf.set(worker, span.spanContext())
      }
    }
  }
}

/** A leg that continues on another worker is linked to the last span of the lost leg. */
function linksTo(context: SpanContext | undefined): Link[] {
  return context === undefined ? [] : [{ context, attributes: { 'baton.link': 'migrated_from' } }]
}

function parentOf({ parentTraceparent }: RequestFacts): Context {
  if (parentTraceparent === undefined) return ROOT_CONTEXT
  const { traceId, spanId } = parseTraceparent(parentTraceparent)
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: 1, isRemote: true })
}
