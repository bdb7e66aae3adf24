/**
 * Middleware between the socket and the routes: authentication, CORS, rate limits, request log.
 *
 * `before` runs in the order of the list, `after` in the reverse order.
 */
import type { HttpCall } from './http-call.ts'
import type { HttpReply } from './http-exchange.ts'

export interface Middleware {
  /** Runs before the body is read. A returned reply is sent, a thrown error becomes a reply. */
  before?(call: HttpCall): HttpReply | undefined
  /** Runs for every reply, including refusals. */
  after?(call: HttpCall, reply: HttpReply): HttpReply
}

/** The first reply that a middleware returns. */
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
