/**
 * Prepares a forwarded call: its model, the tokens for routing, and the run.
 */
import {
  anthropicErrorEvent,
  applyRoutingHeaders,
  DONE_EVENT,
  errorEvent,
  routingOf,
  sessionOf,
} from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import { takesSalts } from '../../request/index.ts'
import type { GenerateRequest, RoutingHints } from '../../request/index.ts'
import type { Caller } from '../access/caller.ts'
import { refuseOtherModels, refuseRouting, tenantRouting } from '../access/tenant-rules.ts'
import type { CallRecord } from '../generation/call-record.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { withinPreprocess } from '../http/preprocess-deadline.ts'
import { checkedMedia } from '../media/checked-media.ts'
import { DEFAULT_MEDIA } from '../media/media-options.ts'
import type { MediaSource } from '../media/media-sources.ts'
import { isPassedThrough, takesForwarded } from '../models/passed-through.ts'
import type { ServedModel } from '../models/served-model.ts'
import { withGoals } from '../prompt/goals-of-class.ts'
import { bodyForEngine } from './engine-body.ts'
import { readForwardBody } from './forward-body.ts'
import type { ForwardBody } from './forward-body.ts'
import { AnsweredModel } from './answered-model.ts'
import { forwardHeaders } from './forward-headers.ts'
import { isForwardedMedia } from './media-parts.ts'
import type { RoutingTokens } from './routing-tokens.ts'
import { ForwardRun } from './forward-run.ts'
import { tokenizedPrompt } from './tokenized-prompt.ts'

/**
 * Throws at once for an invalid request. Nothing is awaited for a request without media that is not tokenised here.
 */
export function answerForwarded(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  return answerForwardedBody(deps, http, record, bodyOf(http, http.body))
}

/** Null: Baton answers this call itself, with the embeddings of its workers, or refuses it. */
export function answerAtEngine(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> | null {
  const body = bodyForEngine(deps, http)
  return body === null ? null : answerForwardedBody(deps, http, record, body)
}

/** Null: the conversation has no media that only the model's servers can read. */
export function answerMediaAtEngine(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  fields: Readonly<Record<string, unknown>>,
): Promise<HttpReply> | null {
  return isForwardedMedia(deps, fields) ? answerForwarded(deps, http, record) : null
}

function bodyOf({ headers, path }: HttpRequest, bytes: Uint8Array): ForwardBody {
  return readForwardBody(bytes, headers['content-type'], path)
}

/** For a body that was read already to find its model. */
export function answerForwardedBody(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  came: ForwardBody,
): Promise<HttpReply> {
  refuseOddPath(http)
  const model = deps.registry.ready(came.model)
  if (!takesForwarded(model)) throw notForwarded(http, model)
  refuseOtherModels(record.caller, [came.model ?? model.name, model.name])
  const hints = routingFor(record.caller, came, model, http)
  record.started(model.name, { stream: came.isStream, nvext: {} }, hints)
  const call = { deps, http, record, model, hints }
  const sources = came.media()
  if (sources.length > 0) {
    return withinPreprocess(mediaIn(deps, http, sources), limitsOf(call)).then((bytes) =>
      answerBody(call, bodyOf(http, bytes)),
    )
  }
  return answerBody(call, came)
}

const PLAIN_PATH = /^(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]*)+$/

/**
 * Dot segments, encoded characters and empty segments are never part of an engine's route. A server or proxy that
 * resolves them would give clients its other routes, for example those that administer it.
 */
function refuseOddPath({ method, path }: HttpRequest): void {
  if (PLAIN_PATH.test(path)) return
  throw new BatonError('request.not_found', `Route not found: ${method} ${path}`)
}

/** A parsed request. */
interface ForwardedCall {
  readonly deps: GenerationDeps
  readonly http: HttpRequest
  readonly record: CallRecord
  readonly model: ServedModel
  readonly hints: RoutingHints
}

function limitsOf({ deps, http }: ForwardedCall): Parameters<typeof withinPreprocess>[1] {
  return { clock: deps.clock, limitMs: deps.bounds.preprocessMs, signal: http.signal }
}

function answerBody(call: ForwardedCall, body: ForwardBody): Promise<HttpReply> {
  const prompt = routingTokensFor(call.deps, call.model, call.http, body)
  if (!(prompt instanceof Promise)) return runForward(call, body, prompt)
  return withinPreprocess(prompt, limitsOf(call)).then((tokens) => runForward(call, body, tokens))
}

function runForward(
  { deps, http, record, model, hints }: ForwardedCall,
  body: ForwardBody,
  { tokenIds, isEstimated }: RoutingTokens,
): Promise<HttpReply> {
  const routing = isEstimated ? withEstimate(hints) : hints
  record.preprocessed(tokenIds.length)
  record.reserve(tokenIds.length, () => body.outputTokens())
  const { path, query, method } = http
  const atEngine = nameAtEngine(model, body.model, hints.loraName)
  const changes = { model: atEngine, salt: saltAtEngine(record.caller, model, hints) }
  return new ForwardRun({
    service: model.router.service,
    clock: deps.clock,
    record,
    http,
    request: (forward) => requestFor(record, model, { tokenIds, routing, forward }),
    stalledMs: deps.bounds.silenceMs,
    ...answeredModel(model, body.model, atEngine),
    forward: {
      method,
      path: query === '' ? path : `${path}?${query}`,
      headers: forwardHeaders(http.headers, record),
      body: body.bytes(changes),
      isStream: body.isStream,
      ...(body.isDividable
        ? { prefillBody: (isStreamed = false) => body.prefillBytes(changes, isStreamed) }
        : {}),
      errorEvent: errorEventFor(path),
    },
  }).answer()
}

/** Uses `Object.assign`, because a spread followed by a member calls into the runtime. */
function withEstimate(hints: RoutingHints): RoutingHints {
  return Object.assign({ isEstimated: true }, hints)
}

/** The body in which the addresses of media are replaced by their content, if they are fetched. */
async function mediaIn(
  { bounds, media = DEFAULT_MEDIA }: GenerationDeps,
  { body, signal }: HttpRequest,
  sources: readonly MediaSource[],
): Promise<Uint8Array> {
  return await checkedMedia(body, sources, {
    ...media,
    bodyBytesMax: bounds.bodyBytesMax,
    signal,
  })
}

function notForwarded({ method, path }: HttpRequest, { name }: ServedModel): BatonError {
  const text = `${method} ${path}: the workers of ${name} do not accept forwarded requests`
  return new BatonError('request.not_found', text)
}

function requestFor(
  { requestId, traceparent }: CallRecord,
  model: ServedModel,
  { tokenIds, routing, forward }: Pick<GenerateRequest, 'tokenIds' | 'routing' | 'forward'>,
): GenerateRequest {
  return {
    requestId,
    model: model.name,
    tokenIds,
    sampling: {},
    stop: {},
    output: {},
    eosTokenIds: [],
    routing,
    ...(forward === undefined ? {} : { forward }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
}

/** Baton's own fields in the body are left to the engine; its headers are honoured. */
function routingFor(
  caller: Caller,
  body: ForwardBody,
  model: ServedModel,
  http: HttpRequest,
): RoutingHints {
  const salt = body.cacheSalt === undefined ? {} : { cache_salt: body.cacheSalt }
  const nvext = applyRoutingHeaders(salt, http.headers)
  refuseRouting(caller, nvext)
  const hints = routingOf(nvext, sessionOf(http.headers), http.headers)
  const routing = withoutQuery(withGoals(model.router, tenantRouting(caller, hints)))
  const loraName = model.adapterNamed(body.model)
  return loraName === undefined ? routing : { ...routing, loraName }
}

function withoutQuery(hints: RoutingHints): RoutingHints {
  if (hints.queryOnly === undefined) return hints
  const { queryOnly: _, ...routing } = hints
  return routing
}

/**
 * The salt that separates a tenant's prefixes in the engine's cache; undefined: no key, so the client's own salt is
 * kept.
 */
function saltAtEngine(
  { key }: Caller,
  model: ServedModel,
  { cacheSalt = '' }: RoutingHints,
): string | undefined {
  return key !== null && model.cards.some(takesSalts) ? cacheSalt : undefined
}

/**
 * The engines' own name of the model when it differs from the client's; undefined: the body contains it
 * already.
 */
function nameAtEngine(
  model: ServedModel,
  asked: string | undefined,
  loraName: string | undefined,
): string | undefined {
  const [card] = model.cards
  if (card === undefined || asked === undefined || loraName !== undefined) return undefined
  const { engine } = card
  const isAlias = asked !== model.name && engine.modelAliases?.includes(asked) === true
  return engine.model === asked || isAlias ? undefined : engine.model
}

/** For a request without a model name, the engine's own name is shown. */
function answeredModel(
  model: ServedModel,
  asked: string | undefined,
  atEngine: string | undefined,
): { readonly answeredModel?: AnsweredModel } {
  const name = atEngine ?? (asked === undefined ? model.cards[0]?.engine.model : undefined)
  const shown = asked ?? model.name
  return name === undefined || name === shown
    ? {}
    : { answeredModel: new AnsweredModel(name, shown) }
}

function routingTokensFor(
  deps: GenerationDeps,
  model: ServedModel,
  http: HttpRequest,
  body: ForwardBody,
): RoutingTokens | Promise<RoutingTokens> {
  if (deps.forwarding?.hasTokenizer !== true || isPassedThrough(model)) return body.routingTokens()
  return tokenizedPrompt(deps, model, http).then((tokenIds) =>
    tokenIds === null ? body.routingTokens() : { tokenIds, isEstimated: false },
  )
}

function errorEventFor(path: string): (error: BatonError) => string {
  if (path.startsWith('/v1/messages')) return anthropicErrorEvent
  if (path.startsWith('/v1/responses')) {
    return (error) => `event: error\n${errorEvent(error)}`
  }
  return (error) => errorEvent(error) + DONE_EVENT
}
