/**
 * What stands between the socket and the routes: authentication, CORS, limits of rate, a log of requests.
 *
 * `before` runs in the order of the list, `after` in the other direction.
 */
import type { HttpCall } from './http-call.ts'
import type { HttpReply } from './http-exchange.ts'

export interface Middleware {
  /** The head is there, the body is not read yet. A reply given here is the reply; an error thrown becomes one. */
  before?(call: HttpCall): HttpReply | undefined
  /** Every reply, refusals too. */
  after?(call: HttpCall, reply: HttpReply): HttpReply
}

/** The first reply that one of them gives. */
export function runBefore(
  middleware: readonly Middleware[],
  call: HttpCall,
): HttpReply | undefined {
  for (const each of middleware) {
    const reply = each.before?.(call)
    if (reply !== undefined) return reply
  }
  return undefined
}

export function runAfter(
  middleware: readonly Middleware[],
  call: HttpCall,
  reply: HttpReply,
): HttpReply {
  let shown = reply
  for (let at = middleware.length - 1; at >= 0; at--) {
    shown = middleware[at]?.after?.(call, shown) ?? shown
  }
  return shown
}
