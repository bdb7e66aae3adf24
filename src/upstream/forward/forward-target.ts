/**
 * A foreign server that requests are forwarded to, and what each leg of one is sent: the client's own bytes, with the fields
 * of a hand-over behind them where there are two legs.
 *
 * vLLM (NIXL): the prefill leg is the same request for one token; what it answers goes to the decode leg, once. SGLang: both
 * legs have the same meeting point. Other servers hand nothing over for requests in this form: the prefill leg ends at
 * once without a result, and the router lets decode do all of it, or refuses where disaggregation is enforced.
 */
import { randomUUID } from 'node:crypto'
import type { Clock } from '../../base/index.ts'
import { finishChunk, withFields } from '../../request/index.ts'
import type {
  DisaggregationMode,
  ForwardedRequest,
  GenerateRequest,
  ReplySink,
  RequestHandle,
} from '../../request/index.ts'
import type { UpstreamClient, UpstreamRequest } from '../client/upstream-client.ts'
import { KEEP_BLOCKS, paramsOfPrefill, requestIdOfPrefill } from '../dialects/vllm-transfer.ts'
import type { UpstreamKind } from '../kind/upstream-kind.ts'
import { ForwardCall } from './forward-call.ts'
import { ForwardPrefill } from './forward-prefill.ts'

export interface ForwardTarget {
  readonly client: UpstreamClient
  readonly kind: UpstreamKind
  readonly mode: DisaggregationMode
  readonly clock: Clock
}

export function startForward(
  target: ForwardTarget,
  forward: ForwardedRequest,
  request: GenerateRequest,
  sink: ReplySink,
): RequestHandle {
  return target.mode === 'prefill'
    ? startPrefill(target, forward, request, sink)
    : startDecode(target, forward, request, sink)
}

function startPrefill(
  target: ForwardTarget,
  forward: ForwardedRequest,
  request: GenerateRequest,
  sink: ReplySink,
): RequestHandle {
  const { routing } = request
  const fields = prefillFields(target, request)
  const body = fields === null ? undefined : forward.prefillBody?.()
  if (fields === null || body === undefined) {
    sink.onChunk(finishChunk('length'))
    return NO_HANDLE
  }
  const http = httpOf(target, forward, routing.prefillDpRank ?? routing.dpRank)
  // Of its own for every attempt: what another one has left at a server that pushes must not be found.
  const requestId = `${request.requestId}.${randomUUID()}`
  const whole = {
    ...http,
    headers: { ...http.headers, 'X-Request-Id': requestId },
    body: withFields(body, fields),
    retries: 'kept' as const,
  }
  const { clock } = target
  return new ForwardPrefill({ clock, requestId }, forward, sink).start(target.client, whole)
}

function startDecode(
  target: ForwardTarget,
  forward: ForwardedRequest,
  request: GenerateRequest,
  sink: ReplySink,
): RequestHandle {
  const call = new ForwardCall(forward, sink)
  const http = httpOf(target, forward, request.routing.dpRank)
  const fields = decodeFields(target, request)
  if (fields === null) return call.start(target.client, { ...http, retries: 'kept' })
  // What prefill has left may be used once, and waits for the request to come.
  const body = withFields(forward.body, fields)
  call.hasHandOver = request.prefillResult !== undefined
  const requestId = requestIdOfPrefill(request.prefillResult)
  const named = requestId === undefined ? {} : { 'X-Request-Id': requestId }
  const headers = { ...http.headers, ...named }
  return call.start(target.client, { ...http, headers, body, retries: false })
}

/** Null: the server hands nothing over. */
function prefillFields({ kind }: ForwardTarget, request: GenerateRequest): string | null {
  if (kind === 'vllm') return `"kv_transfer_params":${JSON.stringify(KEEP_BLOCKS)}`
  return kind === 'sglang' ? meetingPoint(request) : null
}

/** Null: the request goes on as it came. */
function decodeFields({ kind, clock }: ForwardTarget, request: GenerateRequest): string | null {
  if (kind === 'sglang') return meetingPoint(request)
  if (kind !== 'vllm') return null
  const params = paramsOfPrefill(request.prefillResult, clock.epochMs())
  return params === null ? null : `"kv_transfer_params":${JSON.stringify(params)}`
}

function meetingPoint({ bootstrap }: GenerateRequest): string | null {
  if (bootstrap === undefined || !/^\d{1,19}$/.test(bootstrap.room)) return null
  const { host, port, room } = bootstrap
  // An id that nobody can guess: an abort takes every id that begins alike.
  const place = { rid: randomUUID(), bootstrap_host: host, bootstrap_port: port }
  return `${JSON.stringify(place).slice(1, -1)},"bootstrap_room":${room}`
}

function httpOf(
  { kind }: ForwardTarget,
  { body, headers, method, path }: ForwardedRequest,
  rank: number | undefined,
): UpstreamRequest {
  const takesRank = rank !== undefined && (kind === 'vllm' || kind === 'sglang')
  return {
    method,
    path,
    headers: takesRank ? { ...headers, 'X-data-parallel-rank': String(rank) } : headers,
    ...(method === 'GET' ? {} : { body }),
  }
}

const NO_HANDLE: RequestHandle = { cancel: () => undefined }
