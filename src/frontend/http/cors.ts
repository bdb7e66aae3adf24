/**
 * Middleware for cross-origin requests of web pages: the operator lists the allowed origins; pages of this
 * machine are always allowed.
 *
 * It runs before authentication, because browsers send a preflight without a key and have to be able to read a
 * 401.
 */
import { allowedOrigins } from './foreign-page.ts'
import type { HttpCall } from './http-call.ts'
import type { HttpReply } from './http-exchange.ts'
import type { Middleware } from './middleware.ts'

const METHODS = 'GET, POST, DELETE, OPTIONS'
/** Response headers that a page may read. */
const EXPOSED =
  'x-request-id, request-id, retry-after, x-baton-decision, x-baton-relaxed, www-authenticate'
const MAX_AGE_SECONDS = '600'

/** `origins`: as browsers send them, or `*` for all. */
export function cors(origins: readonly string[]): Middleware {
  const isAllowed = allowedOrigins(origins)
  const headersFor = ({ head: { headers } }: HttpCall): HttpReply['headers'] => {
    const { origin } = headers
    if (origin === undefined) return {}
    // A cached answer for one origin must not be used for another.
    const vary = { vary: 'origin' }
    if (!isAllowed(origin)) return vary
    return { ...vary, 'access-control-allow-origin': origin }
  }
  return {
    before: ({ head: { method, headers } }) => {
      const wanted = headers['access-control-request-method']
      if (method !== 'OPTIONS' || headers['origin'] === undefined || wanted === undefined) {
        return undefined
      }
      return {
        status: 204,
        headers: isAllowed(headers['origin']) ? preflight(headers) : {},
        body: '',
      }
    },
    after: (call, reply) =>
      // The request does not come from a web page.
      call.head.headers['origin'] === undefined
        ? reply
        : {
            ...reply,
            headers: {
              ...reply.headers,
              ...headersFor(call),
              'access-control-expose-headers': EXPOSED,
            },
          },
  }
}

function preflight(headers: Readonly<Record<string, string>>): HttpReply['headers'] {
  const asked = headers['access-control-request-headers'] ?? ''
  const isPlain = /^[a-z0-9!#$%&'*+.^_`|~ ,-]{0,2000}$/i.test(asked)
  return {
    'access-control-allow-methods': METHODS,
    ...(asked !== '' && isPlain ? { 'access-control-allow-headers': asked } : {}),
    ...(headers['access-control-request-private-network'] === 'true'
      ? { 'access-control-allow-private-network': 'true' }
      : {}),
    'access-control-max-age': MAX_AGE_SECONDS,
  }
}
