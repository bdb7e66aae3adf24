/** A route: its facts and its handler. */
import type { HttpCall } from './http-call.ts'
import type { BodyTaker, HttpReply, HttpRequest } from './http-exchange.ts'
import type { RouteFacts } from './route-facts.ts'

export type Handler = (http: HttpRequest, call: HttpCall) => HttpReply | Promise<HttpReply>

export interface Route extends RouteFacts {
  readonly handle: Handler
  /** Present when a large body can be consumed while it arrives. */
  readonly takeBody?: (call: HttpCall) => BodyTaker
}
