/**
 * The HTTP side of a router of the dialect `boostr`: token ids in, token ids out.
 *
 * POST /v1/completions {prompt, max_tokens = 256, session_id?} → {tokens, token_count}      GET /health → {status, load}
 *
 * `prompt` is a list of token ids, or a text of which each code point is one, because the dialect has no tokenizer.
 */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'
import { errorReply, refuseUnwieldy } from '../../api/index.ts'
import { plainRequests } from '../../frontend/index.ts'
import type { HttpReply, HttpRequest } from '../../frontend/index.ts'
import type { BoostrRoute } from '../protocol/boostr-route.ts'
import type { BoostrRouter } from '../protocol/boostr-router.ts'
import { HttpServer } from '../../network/index.ts'
import type { BoostrHealth } from './boostr-health.ts'

interface BoostrHttpOptions {
  readonly host: string
  readonly port: number
  readonly router: BoostrRouter
  /** Largest `max_tokens` of a request. */
  readonly maxTokensMax: number
  /** Whether requests can be served now. */
  readonly health: () => BoostrHealth
  readonly onFault: (error: unknown) => void
}

const BODY_BYTES_MAX = 16 * 1024 * 1024
const MAX_TOKENS_DEFAULT = 256

/** Rejects with `host.address_in_use` when the port is taken. */
export function listenBoostrHttp(options: BoostrHttpOptions): Promise<HttpServer> {
  const { host, port, onFault } = options
  const open = plainRequests({
    bodyBytesMax: BODY_BYTES_MAX,
    answer: (request) => answer(options, request),
    refuse: errorReply,
    onFault,
  })
  return HttpServer.listen({ host, port, onFault, open })
}

async function answer(
  { router, maxTokensMax, health }: Pick<BoostrHttpOptions, 'router' | 'maxTokensMax' | 'health'>,
  request: HttpRequest,
): Promise<HttpReply> {
  const { method, path } = request
  const isKnown = path === '/health' || path === '/v1/completions'
  if (!isKnown) throw new BatonError('request.not_found', `no route ${path}`)
  if (method !== (path === '/health' ? 'GET' : 'POST')) {
    throw new BatonError('request.method_not_allowed', `${path} does not support ${method}`)
  }
  if (path === '/health') return healthReply(health(), router.load)
  const tokens = await complete(router, routeOf(request.body, maxTokensMax), request.signal)
  return json({ tokens, token_count: tokens.length })
}

function healthReply({ canServe, warnings }: BoostrHealth, load: number): HttpReply {
  const status = canServe ? 'ok' : 'unavailable'
  const reply = json({ status, load, ...(warnings.length === 0 ? {} : { warnings }) })
  return canServe ? reply : { ...reply, status: 503 }
}

/** Ids that JSON numbers cannot represent exactly are sent as text. */
function complete(
  router: BoostrRouter,
  route: BoostrRoute,
  signal: CancelSignal,
): Promise<(number | string)[]> {
  return new Promise((resolve, reject) => {
    const tokens: (number | string)[] = []
    const handle = router.routeRequest(route, {
      onToken: (id) => tokens.push(Number.isSafeInteger(Number(id)) ? Number(id) : `${id}`),
      onDone: () => resolve(tokens),
      onError: reject,
    })
    const cancel = (): void => {
      handle.cancel()
      reject(new BatonError('request.cancelled', 'the client disconnected'))
    }
    if (signal.aborted) cancel()
    else signal.addEventListener('abort', cancel)
  })
}

function routeOf(bytes: Uint8Array, maxTokensMax: number): BoostrRoute {
  refuseUnwieldy(bytes)
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(bytes))
  } catch (cause) {
    throw new BatonError('request.invalid_argument', 'the body is not JSON', { cause })
  }
  if (typeof body !== 'object' || body === null) throw invalid('prompt', 'is missing')
  const fields = body as Readonly<Record<string, unknown>>
  const tokensDefault = Math.min(MAX_TOKENS_DEFAULT, maxTokensMax)
  const { prompt, max_tokens: maxNewTokens = tokensDefault, session_id: sessionKey } = fields
  const isCount = typeof maxNewTokens === 'number' && Number.isInteger(maxNewTokens)
  if (!isCount || maxNewTokens < 1 || maxNewTokens > maxTokensMax) {
    throw invalid('max_tokens', `must be a positive integer of at most ${maxTokensMax}`)
  }
  if (sessionKey !== undefined && typeof sessionKey !== 'string') {
    throw invalid('session_id', 'must be a text')
  }
  const route = { tokenIds: tokensOf(prompt), maxNewTokens }
  return sessionKey === undefined ? route : { ...route, sessionKey }
}

function tokensOf(prompt: unknown): BigInt64Array {
  const ids: unknown[] =
    typeof prompt === 'string'
      ? Array.from(prompt, (point) => point.codePointAt(0))
      : Array.isArray(prompt)
        ? prompt
        : []
  if (ids.length === 0) throw invalid('prompt', 'must be a text or a list of token ids, not empty')
  return BigInt64Array.from(ids, (id) => {
    if (typeof id === 'number' && Number.isSafeInteger(id)) return BigInt(id)
    throw invalid('prompt', 'contains something that is not a token id')
  })
}

function invalid(param: string, message: string): BatonError {
  return new BatonError('request.invalid_argument', `${param} ${message}`, { data: { param } })
}

function json(value: unknown): HttpReply {
  const headers = { 'content-type': 'application/json' }
  return { status: 200, headers, body: JSON.stringify(value) }
}
