/**
 * One HTTP request from its head to its reply, as middleware and handlers see it.
 */
import type { Caller } from '../access/caller.ts'
import { OPEN_CALLER } from '../access/caller.ts'
import type { HttpHead } from './http-exchange.ts'
import type { ApiForm, RouteFacts } from './route-facts.ts'

export class HttpCall {
  readonly head: HttpHead
  readonly requestId: string
  /** Null: no route for this path and method. */
  readonly route: RouteFacts | null
  /** The values of the names in the route's path, in order. */
  readonly names: readonly string[]
  /** Set by authentication before the body is read. */
  caller: Caller = OPEN_CALLER

  constructor(
    head: HttpHead,
    requestId: string,
    route: RouteFacts | null,
    names: readonly string[] = [],
  ) {
    this.head = head
    this.requestId = requestId
    this.route = route
    this.names = names
  }

  /** The first value in the path; empty when there is none. */
  get name(): string {
    return this.names[0] ?? ''
  }

  /** The API whose error format is used. */
  get form(): ApiForm {
    const { path, headers } = this.head
    const form = this.route?.form ?? (path.startsWith('/v1/messages') ? 'anthropic' : 'openai')
    if (form !== 'either') return form
    return headers['anthropic-version'] === undefined ? 'openai' : 'anthropic'
  }
}
