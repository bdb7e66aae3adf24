/** A route: its facts and who answers. */
import type { HttpCall } from './http-call.ts'
import type { BodyTaker, HttpReply, HttpRequest } from './http-exchange.ts'
import type { RouteFacts } from './route-facts.ts'

export type Handler = (http: HttpRequest, call: HttpCall) => HttpReply | Promise<HttpReply>

export interface Route extends RouteFacts {
  readonly handle: Handler
  /** A large body need not be there as a whole. */
  readonly takeBody?: (call: HttpCall) => BodyTaker
}
