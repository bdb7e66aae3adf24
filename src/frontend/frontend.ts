/**
 * The frontend: an HTTP request as a value in, a reply or a stream of text out.
 *
 * Owns: routes, admission (bounds, draining), the id of a request, and that every error becomes a reply. It never
 * throws: what goes wrong is a status with a JSON body.
 */
import { BatonError } from '../base/index.ts'
import { anthropicErrorReply, errorReply, openApiDocument, traceparentOf } from '../api/index.ts'
import { CallRecord } from './call-record.ts'
import { decisionHeader } from './decision-header.ts'
import { docsPage } from './docs-page.ts'
import { answerMessages, countMessageTokens } from './endpoint-anthropic.ts'
import { answerChat } from './endpoint-chat.ts'
import { answerCompletions } from './endpoint-completions.ts'
import { answerEmbeddings } from './endpoint-embeddings.ts'
import { answerResponses, countResponseTokens } from './endpoint-responses.ts'
import {
  explainReply,
  healthReply,
  jsonReply,
  liveReply,
  modelReply,
  modelsReply,
  readyReply,
} from './endpoint-status.ts'
import type { ModelForm } from './endpoint-status.ts'
import { listThresholds, setThresholds } from './endpoint-thresholds.ts'
import { answerDetokenize, answerTokenize } from './endpoint-tokens.ts'
import type { Endpoint, FrontendObserver } from './frontend-observer.ts'
import { DEFAULT_LIMITS } from './frontend-options.ts'
import type { FrontendOptions } from './frontend-options.ts'
import type { GenerationDeps } from './generation-job.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { ModelRegistry } from './model-registry.ts'
import { createRequestId, isRequestId } from './request-id.ts'

type Handler = (http: HttpRequest, requestId: string) => HttpReply | Promise<HttpReply>
type Methods = Partial<Record<string, Handler>>
type Generator = (deps: GenerationDeps, http: HttpRequest, record: CallRecord) => Promise<HttpReply>

const HTML = { 'content-type': 'text/html; charset=utf-8' }
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export class Frontend {
  /** Tell it of workers: it is a FleetObserver. */
  readonly registry: ModelRegistry
  readonly #deps: GenerationDeps
  readonly #observer: FrontendObserver
  readonly #routes: ReadonlyMap<string, Methods>
  readonly #idsInFlight = new Set<string>()
  #draining = false
  #openApi: Record<string, unknown> | null = null

  constructor(options: FrontendOptions) {
    const bounds = { ...DEFAULT_LIMITS, ...options.limits }
    this.registry = new ModelRegistry(options)
    this.#observer = options.observer ?? {}
    this.#deps = { ...options, registry: this.registry, bounds }
    this.#routes = new Map(Object.entries(this.#routeTable()))
  }

  get isDraining(): boolean {
    return this.#draining
  }

  /** Requests whose reply has not ended, streams included. */
  get requestsInFlight(): number {
    return this.#idsInFlight.size
  }

  /** Admit nothing new; what runs goes on. `/live` stays 200. */
  drain(): void {
    this.#draining = true
  }

  close(): void {
    this.drain()
    this.registry.close()
  }

  /** Never rejects. */
  async handle(http: HttpRequest): Promise<HttpReply> {
    const requestId = this.#requestIdOf(http)
    const reply = withRequestId(await this.#answer(http, requestId), http, requestId)
    const decision = decisionHeader(http.headers, this.registry, requestId)
    return { ...reply, headers: { ...reply.headers, ...decision } }
  }

  /** The reply to a request that `host` could not read: the error in the words of the API that was asked. */
  refuse(http: HttpRequest, error: BatonError): HttpReply {
    return withRequestId(refusalOf(http, error), http, this.#requestIdOf(http))
  }

  async #answer(http: HttpRequest, requestId: string): Promise<HttpReply> {
    try {
      const methods = this.#routes.get(http.path) ?? this.#patternRoute(http.path)
      if (methods === undefined) throw routeNotFound(http)
      const handler = methods[http.method] ?? (http.method === 'HEAD' ? methods['GET'] : undefined)
      if (handler === undefined) return methodNotAllowed(http, Object.keys(methods))
      return await handler(http, requestId)
    } catch (thrown) {
      return refusalOf(http, this.#shown(thrown, requestId))
    }
  }

  /** What is not a BatonError is a fault of ours; its text may hold anything and is for the log only. */
  #shown(thrown: unknown, requestId: string): BatonError {
    if (thrown instanceof BatonError && thrown.code !== 'runtime.internal') return thrown
    this.#observer.faulted?.(requestId, thrown)
    return new BatonError('runtime.internal', `internal error, see the log for ${requestId}`)
  }

  #routeTable(): Record<string, Methods> {
    const chat = this.#generating('chat_completions', answerChat)
    const { registry } = this
    return {
      '/v1/chat/completions': { POST: chat },
      '/v1/completions': { POST: this.#generating('completions', answerCompletions) },
      '/v1/responses': { POST: this.#generating('responses', answerResponses) },
      '/v1/responses/input_tokens': { POST: (http) => countResponseTokens(this.#deps, http) },
      '/v1/messages': { POST: this.#generating('anthropic_messages', answerMessages) },
      '/v1/messages/count_tokens': { POST: (http) => countMessageTokens(this.#deps, http) },
      '/v1/embeddings': { POST: this.#generating('embeddings', answerEmbeddings) },
      '/v1/models': { GET: (http) => modelsReply(registry, modelFormOf(http)) },
      '/health': { GET: () => healthReply(registry, this.#draining) },
      '/live': { GET: liveReply },
      '/ready': { GET: () => readyReply(registry, this.#draining) },
      '/metrics': { GET: () => this.#metrics() },
      '/openapi.json': { GET: () => jsonReply(200, this.#openApiDocument()) },
      '/docs': {
        GET: () => ({ status: 200, headers: HTML, body: docsPage(this.#openApiDocument()) }),
      },
      '/busy_threshold': {
        GET: () => listThresholds(registry),
        POST: (http) => setThresholds(registry, http),
      },
      '/tokenize': { POST: (http) => answerTokenize(this.#deps, http) },
      '/detokenize': { POST: (http) => answerDetokenize(registry, http) },
      '/v1/tokenize': { POST: (http) => answerTokenize(this.#deps, http) },
      '/v1/detokenize': { POST: (http) => answerDetokenize(registry, http) },
    }
  }

  /** Routes whose path carries a name. */
  #patternRoute(path: string): Methods | undefined {
    const model = nameBehind(path, '/v1/models/')
    if (model !== undefined) {
      return { GET: (http) => modelReply(this.registry, model, modelFormOf(http)) }
    }
    const requestId = nameBehind(path, '/debug/requests/')
    if (requestId !== undefined) {
      return { GET: () => explainReply(this.registry, withoutReplyPrefix(requestId)) }
    }
    return undefined
  }

  /** What all generating endpoints share: admission, one record per call, one report of its end. */
  #generating(endpoint: Endpoint, answer: Generator): Handler {
    return async (http, requestId) => {
      const record = new CallRecord({
        clock: this.#deps.clock,
        observer: this.#observer,
        endpoint,
        requestId,
        traceparent: traceparentOf(http.headers),
        onEnded: () => this.#idsInFlight.delete(requestId),
      })
      this.#idsInFlight.add(requestId)
      try {
        this.#admit()
        return await answer(this.#deps, http, record)
      } catch (thrown) {
        const error = BatonError.from(thrown)
        record.ended({ status: error.row.httpStatus, error, usage: null, choices: 0 })
        throw error
      }
    }
  }

  #admit(): void {
    if (this.#draining) {
      throw new BatonError('backend.worker_draining', 'the service is shutting down')
    }
    const { requestsMax } = this.#deps.bounds
    if (this.#idsInFlight.size > requestsMax) {
      throw new BatonError(
        'capacity.exhausted',
        `more than ${requestsMax} requests are in flight`,
        {
          data: { limit: requestsMax },
        },
      )
    }
  }

  /** A client may choose the id, if it is a UUID that nobody uses at this moment. */
  #requestIdOf(http: HttpRequest): string {
    const asked = http.headers['x-dynamo-request-id'] ?? http.headers['x-request-id']
    if (asked !== undefined && isRequestId(asked) && !this.#idsInFlight.has(asked)) return asked
    return createRequestId(this.#deps.random)
  }

  async #metrics(): Promise<HttpReply> {
    const text = await this.#deps.metrics?.()
    return { status: 200, headers: { 'content-type': METRICS_TYPE }, body: text ?? '' }
  }

  #openApiDocument(): Record<string, unknown> {
    this.#openApi ??= openApiDocument(this.#deps.version ?? '0.0.0')
    return this.#openApi
  }
}

/** The id of a reply names its request as well: `chatcmpl-<request id>`. */
function withoutReplyPrefix(id: string): string {
  return id.replace(/^(chatcmpl|cmpl|resp|msg)[-_]/, '')
}

function refusalOf(http: HttpRequest, error: BatonError): HttpReply {
  return isAnthropic(http) ? anthropicErrorReply(error) : errorReply(error)
}

function withRequestId(reply: HttpReply, http: HttpRequest, requestId: string): HttpReply {
  const echoed = http.headers['x-request-id'] ?? requestId
  return {
    ...reply,
    headers: {
      ...reply.headers,
      'x-request-id': echoed,
      // Clients of the Anthropic API look here.
      ...(isAnthropic(http) ? { 'request-id': echoed } : {}),
    },
  }
}

/** Its own routes, and the list of models when its clients ask. */
function isAnthropic({ path, headers }: HttpRequest): boolean {
  if (path === '/v1/messages' || path.startsWith('/v1/messages/')) return true
  const isModels = path === '/v1/models' || path.startsWith('/v1/models/')
  return isModels && headers['anthropic-version'] !== undefined
}

function modelFormOf(http: HttpRequest): ModelForm {
  return isAnthropic(http) ? 'anthropic' : 'openai'
}

function nameBehind(path: string, prefix: string): string | undefined {
  if (!path.startsWith(prefix) || path.length === prefix.length) return undefined
  try {
    return decodeURIComponent(path.slice(prefix.length))
  } catch {
    return path.slice(prefix.length)
  }
}

function routeNotFound(http: HttpRequest): BatonError {
  return new BatonError('request.not_found', `Route not found: ${http.method} ${http.path}`)
}

function methodNotAllowed(http: HttpRequest, allowed: readonly string[]): HttpReply {
  const reply = errorReply(
    new BatonError(
      'request.method_not_allowed',
      `${http.method} is not allowed here, only ${allowed.join(', ')}`,
    ),
  )
  return { ...reply, headers: { ...reply.headers, allow: allowed.join(', ') } }
}
