/**
 * The spans of a request's phases, one entry per span: the event that it is made of, its name, its start and end,
 * and its attributes.
 *
 * A new span of a phase is a new entry here and nothing else. Spans are made at the end of the request, from the
 * times of its events. docs/tracing.md lists them.
 */
import type { WorkerId } from '../../base/index.ts'
import type { FrontendEvent, FrontendEventOf } from '../../frontend/index.ts'
import type { RecordedCall, Times } from './recorded-call.ts'
import { decisionAttributes } from './span-attributes.ts'
import type { Attributes } from './span-attributes.ts'

type Kind = FrontendEvent['kind']

interface PhaseSpan {
  readonly kind: Kind
  readonly name: string
  /** Undefined: this event has no such span. */
  readonly times: (event: FrontendEvent, call: RecordedCall) => Times | undefined
  readonly attributes: (event: FrontendEvent, call: RecordedCall) => Attributes
}

export const PHASE_SPANS: readonly PhaseSpan[] = [
  span(
    'tokenised',
    'tokenize',
    (event) => before(event.atMs, event.elapsedMs),
    (event) => ({ 'gen_ai.usage.input_tokens': event.promptTokens }),
  ),
  span(
    'routed',
    'queue',
    (event) => before(event.atMs - event.decisionMs, event.queuedMs),
    () => ({}),
  ),
  span(
    'routed',
    'route',
    (event) => before(event.atMs, event.decisionMs),
    (event, call) => ({
      'baton.route.overlap_blocks': event.overlapBlocks,
      'baton.route.prompt_blocks': event.promptBlocks,
      'baton.route.bypasses_prefill': event.bypassesPrefill ?? false,
      ...decisionAttributes(call.decisionOf(event)),
    }),
  ),
  span(
    'prefillStarted',
    'prefill_queue',
    (event) => before(event.atMs, event.queuedMs),
    () => ({}),
  ),
  span(
    'prefillDone',
    'prefill',
    (event) => before(event.atMs, event.elapsedMs),
    () => ({}),
  ),
  span(
    'kvTransferred',
    'kv_transfer',
    (event) => before(event.atMs, event.elapsedMs),
    (event) => ({
      'baton.kv.bytes': event.bytes,
      'baton.kv.blocks_pulled': event.blocksPulled,
      'baton.kv.blocks_held': event.blocksHeld,
      'baton.kv.recomputed': event.recomputed,
    }),
  ),
  span(
    'decodeStarted',
    'decode_queue',
    // The transfer comes between the queue and the start.
    (event, call) => before(event.atMs - call.transferMsBefore(event), event.queuedMs),
    () => ({}),
  ),
  span(
    'decodeStarted',
    'decode',
    (event, call) => ({ fromMs: event.atMs, toMs: call.endMsAfter(event) }),
    () => ({}),
  ),
  span(
    'prefillDone',
    'decode',
    (event, call) =>
      event.phase === 'aggregated' && call.generates
        ? { fromMs: event.atMs, toMs: call.endMsAfter(event) }
        : undefined,
    () => ({}),
  ),
  span(
    'migrated',
    'migrate',
    (event) => before(event.atMs, 0),
    (event) => ({
      'baton.migration.attempt': event.attempt,
      'baton.migration.request': event.request,
      'baton.migration.resumed_tokens': event.resumedTokens,
      'error.type': event.errorCode,
    }),
  ),
  // A leg that ends while it waits, or before its first token, has the span of what it waited for until then.
  cut('prefillQueued', 'queue'),
  cut('decodeQueued', 'queue'),
  cut('routed', 'prefill_queue', (event) => event.phase !== 'decode'),
  cut('routed', 'decode_queue', (event) => event.phase === 'decode'),
  cut('prefillStarted', 'prefill'),
]

/** Attributes of every span of a leg: phase and worker. */
export function legAttributes(event: FrontendEvent): Attributes {
  const worker = workerOf(event)
  return {
    ...('phase' in event ? { 'baton.phase': event.phase } : {}),
    ...(worker === undefined ? {} : { 'baton.worker.id': String(worker) }),
    ...('dpRank' in event && event.dpRank !== undefined
      ? { 'baton.worker.rank': event.dpRank }
      : {}),
  }
}

/** The worker of an event; for a migration the lost one. */
export function workerOf(event: FrontendEvent): WorkerId | undefined {
  if ('workerId' in event) return event.workerId
  return event.kind === 'migrated' ? event.failedWorkerId : undefined
}

function before(toMs: number, elapsedMs: number): Times {
  return { fromMs: toMs - elapsedMs, toMs }
}

function cut<Of extends 'prefillQueued' | 'decodeQueued' | 'routed' | 'prefillStarted'>(
  kind: Of,
  name: string,
  isOfLeg: (event: FrontendEventOf<Of>) => boolean = () => true,
): PhaseSpan {
  return span(
    kind,
    name,
    (event, call) => (isOfLeg(event) ? call.untilCut(event) : undefined),
    () => ({ 'baton.incomplete': true }),
  )
}

function span<Of extends Kind>(
  kind: Of,
  name: string,
  times: (event: FrontendEventOf<Of>, call: RecordedCall) => Times | undefined,
  attributes: (event: FrontendEventOf<Of>, call: RecordedCall) => Attributes,
): PhaseSpan {
  return {
    kind,
    name,
    times: (event, call) => times(event as FrontendEventOf<Of>, call),
    attributes: (event, call) => attributes(event as FrontendEventOf<Of>, call),
  }
}
