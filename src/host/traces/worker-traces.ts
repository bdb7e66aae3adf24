/**
 * A worker's spans in the frontend's trace, made by the worker's own process and clock: the span of the request, and
 * below it the wait, the KV transfer, the prompt and the output.
 *
 * Only for requests whose `traceparent` is sampled; the frontend or the client has decided that.
 */
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { Tracer } from '@opentelemetry/api'
import type { Clock } from '../../base/index.ts'
import { modeName } from '../../request/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { WorkerEvent } from '../../worker/index.ts'
import { isSampled, parseTraceparent } from './trace-context.ts'
import type { TracedWorker } from './traces.ts'

type Ended = Extract<WorkerEvent, { readonly kind: 'request-ended' }>

interface Stretch {
  readonly name: string
  readonly fromMs: number
  readonly toMs: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
}

export class WorkerTraces {
  readonly #tracer: Tracer
  readonly #clock: Clock

  constructor(tracer: Tracer, clock: Clock) {
    this.#tracer = tracer
    this.#clock = clock
  }

  readonly observe = (event: WorkerEvent, worker: TracedWorker): void => {
    if (event.kind !== 'request-ended') return
    const { traceparent } = event
    if (traceparent !== undefined && isSampled(traceparent)) this.#draw(event, traceparent, worker)
  }

  #draw(ended: Ended, traceparent: string, { workerId, mode }: TracedWorker): void {
    const offsetMs = this.#clock.epochMs() - this.#clock.nowMs()
    const { traceId, spanId } = parseTraceparent(traceparent)
    const parent = trace.setSpanContext(ROOT_CONTEXT, {
      traceId,
      spanId,
      traceFlags: 1,
      isRemote: true,
    })
    const role = modeName(mode)
    const root = this.#tracer.startSpan(
      `worker ${role}`,
      {
        kind: SpanKind.SERVER,
        startTime: offsetMs + ended.times.admittedMs,
        attributes: {
          'baton.request.id': ended.requestId,
          'baton.worker.id': String(workerId),
          'baton.worker.role': role,
          'gen_ai.usage.input_tokens': ended.promptTokens,
          'gen_ai.usage.output_tokens': ended.outputTokens,
          ...(ended.finish === undefined ? {} : { 'baton.finish_reason': ended.finish }),
          ...(ended.error === undefined ? {} : { 'error.type': ended.error.code }),
        },
      },
      parent,
    )
    if (ended.error !== undefined) {
      root.setStatus({ code: SpanStatusCode.ERROR, message: ended.error.code })
    }
    const own = trace.setSpan(ROOT_CONTEXT, root)
    for (const { name, fromMs, toMs, attributes } of stretchesOf(ended, mode)) {
      const startTime = offsetMs + fromMs
      this.#tracer
        .startSpan(name, { startTime, attributes }, own)
        .end(offsetMs + Math.max(fromMs, toMs))
    }
    root.end(offsetMs + ended.times.endedMs)
  }
}

/** The stages that occurred: a request may end before the engine started, or without a token. */
function stretchesOf({ times, transfer }: Ended, mode: DisaggregationMode): readonly Stretch[] {
  const { admittedMs, atEngineMs, firstTokenMs, endedMs } = times
  const takenMs = transfer?.elapsedMs ?? 0
  const stretches: Stretch[] = []
  const add = (name: string, fromMs: number, toMs: number, attributes = {}): void =>
    void stretches.push({ name, fromMs, toMs, attributes })
  if (transfer !== undefined) {
    add('worker kv_take', admittedMs, admittedMs + takenMs, {
      'baton.kv.bytes': transfer.bytes,
      'baton.kv.blocks_pulled': transfer.blocksPulled,
      'baton.kv.blocks_held': transfer.blocksHeld,
      'baton.kv.recomputed': transfer.recomputed,
    })
  }
  add('worker queue', admittedMs + takenMs, atEngineMs ?? endedMs)
  if (atEngineMs === null) return stretches
  add('worker first_token', atEngineMs, firstTokenMs ?? endedMs)
  // After its token a prefill worker offers the KV.
  const last = mode === 'prefill' ? 'worker offer' : 'worker output'
  if (firstTokenMs !== null && firstTokenMs < endedMs) add(last, firstTokenMs, endedMs)
  return stretches
}
