/**
 * A foreign server that requests are forwarded to, and what each leg sends: the client's own bytes, followed by the
 * fields of a KV transfer if there are two legs.
 *
 * vLLM (NIXL): the prefill leg is the same request for one token; its transfer parameters go to the decode leg,
 * once. SGLang: both legs have the same bootstrap room. llama-server: files of slots (`forward-slots.ts`). Other
 * servers transfer no KV: the prefill leg ends at once without a result, and the router lets decode compute
 * everything, or refuses if disaggregation is enforced.
 */
import { randomUUID } from 'node:crypto'
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk, withFields } from '../../request/index.ts'
import type {
  DisaggregationMode,
  ForwardedRequest,
  GenerateRequest,
  ReplySink,
  RequestHandle,
} from '../../request/index.ts'
import type { UpstreamRequest } from '../client/upstream-call.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { apartOnly } from '../dialects/sglang.ts'
import { KEEP_BLOCKS, paramsOfPrefill, requestIdOfPrefill } from '../dialects/vllm-transfer.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'
import type { HandOverCounts } from '../watch/hand-over-counts.ts'
import { withAdapter } from './adapter-request.ts'
import { ForwardCall } from './forward-call.ts'
import { ForwardPrefill } from './forward-prefill.ts'
import type { ForwardSlots } from './forward-slots.ts'

export interface ForwardTarget {
  readonly client: UpstreamClient
  readonly kind: UpstreamKind
  readonly mode: DisaggregationMode
  readonly clock: Clock
  readonly handOvers: HandOverCounts
  /** For a llama-server with a role; absent: it computes all of a forwarded request. */
  readonly slots?: ForwardSlots
}

export function startForward(
  target: ForwardTarget,
  forward: ForwardedRequest,
  request: GenerateRequest,
  sink: ReplySink,
): RequestHandle {
  const refusal = undivided(target, forward, request)
  if (refusal !== null) return refused(refusal, sink)
  const adapted = withAdapter(target.kind, forward, request)
  if (adapted instanceof BatonError) return refused(adapted, sink)
  return target.mode === 'prefill'
    ? startPrefill(target, adapted, request, sink)
    : startDecode(target, adapted, request, sink)
}

function startPrefill(
  target: ForwardTarget,
  forward: ForwardedRequest,
  request: GenerateRequest,
  sink: ReplySink,
): RequestHandle {
  const { routing } = request
  const { clock, slots, handOvers } = target
  const ofSlots = slots?.prefill({
    forward,
    request,
    sink,
    clock,
    handOvers,
    http: httpOf(target, forward, {}),
  })
  if (ofSlots !== undefined && ofSlots !== null) return ofSlots
  const fields = prefillFields(target, request)
  const body = fields === null ? undefined : forward.prefillBody?.()
  if (fields === null || body === undefined) {
    sink.onChunk(finishChunk('length'))
    return NO_HANDLE
  }
  const http = httpOf(target, forward, { rank: routing.prefillDpRank ?? routing.dpRank })
  // A new id for every attempt, because data that an earlier attempt left at a pushing server must not be found.
  const requestId = `${request.requestId}.${randomUUID()}`
  const whole = {
    ...http,
    headers: { ...http.headers, 'X-Request-Id': requestId },
    body: withFields(body, fields),
    retries: 'kept' as const,
  }
  return new ForwardPrefill({ clock, requestId }, forward, sink).start(target.client, whole)
}

function startDecode(
  target: ForwardTarget,
  forward: ForwardedRequest,
  request: GenerateRequest,
  sink: ReplySink,
): RequestHandle {
  const http = httpOf(target, forward, { rank: request.routing.dpRank, retries: 'kept' })
  const { clock, slots, handOvers } = target
  const ofSlots = slots?.decode({ forward, request, sink, clock, handOvers, http })
  if (ofSlots !== undefined && ofSlots !== null) return ofSlots
  const call = new ForwardCall(forward, sink)
  const fields = decodeFields(target, request)
  if (fields === null) return call.start(target.client, http)
  // The KV of the prefill leg may be used once, and waits for this request to arrive.
  const body = withFields(forward.body, fields)
  call.handOvers = handOvers
  call.hasHandOver = request.prefillResult !== undefined
  call.mustArrive = call.hasHandOver
  const requestId = requestIdOfPrefill(request.prefillResult)
  const named = requestId === undefined ? {} : { 'X-Request-Id': requestId }
  const headers = { ...http.headers, ...named }
  return call.start(target.client, { ...http, headers, body, retries: false })
}

/**
 * Requests that SGLang servers with a role cannot serve in two legs, and why: they need one bootstrap room per
 * request. Null: they can, or a server without a role serves it.
 */
function undivided(
  { kind, mode }: ForwardTarget,
  { path, prefillBody }: ForwardedRequest,
  { bootstrap }: GenerateRequest,
): BatonError | null {
  if (kind !== 'sglang' || mode === 'agg') return null
  const isMessages = path.startsWith('/v1/messages')
  if (isMessages || prefillBody === undefined) {
    const instead = isMessages
      ? 'use /v1/chat/completions'
      : 'send one request for each prompt and each answer'
    return new BatonError(
      'request.unsupported_parameter',
      `prefill and decode servers of SGLang cannot answer this request to ${path}: ${instead}, or add a server without a role`,
    )
  }
  return bootstrap === undefined ? apartOnly() : null
}

function refused(error: BatonError, sink: ReplySink): RequestHandle {
  sink.onError(error)
  return NO_HANDLE
}

/** Null: the server transfers no KV. */
function prefillFields({ kind }: ForwardTarget, request: GenerateRequest): string | null {
  if (kind === 'vllm') return `"kv_transfer_params":${JSON.stringify(KEEP_BLOCKS)}`
  return kind === 'sglang' ? meetingPoint(request) : null
}

/** Null: the request is sent unchanged. */
function decodeFields({ kind, clock }: ForwardTarget, request: GenerateRequest): string | null {
  if (kind === 'sglang') return meetingPoint(request)
  if (kind !== 'vllm') return null
  const params = paramsOfPrefill(request.prefillResult, clock.epochMs())
  return params === null ? null : `"kv_transfer_params":${JSON.stringify(params)}`
}

function meetingPoint({ bootstrap }: GenerateRequest): string | null {
  if (bootstrap === undefined || !/^\d{1,19}$/.test(bootstrap.room)) return null
  const { host, port, room } = bootstrap
  // An unguessable id, because an abort ends every request whose id starts with the given text.
  const place = { rid: randomUUID(), bootstrap_host: host, bootstrap_port: port }
  return `${JSON.stringify(place).slice(1, -1)},"bootstrap_room":${room}`
}

function httpOf(
  { kind }: ForwardTarget,
  { body, headers, method, path }: ForwardedRequest,
  { rank, retries }: { readonly rank?: number | undefined; readonly retries?: 'kept' },
): UpstreamRequest {
  const takesRank = rank !== undefined && (kind === 'vllm' || kind === 'sglang')
  return {
    method,
    path,
    headers: takesRank ? { ...headers, 'X-data-parallel-rank': String(rank) } : headers,
    ...(method === 'GET' ? {} : { body }),
    ...(retries === undefined ? {} : { retries }),
  }
}

const NO_HANDLE: RequestHandle = { cancel: () => undefined }
