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
  /** Null: nothing answers this path with this method. */
  readonly route: RouteFacts | null
  /** What stands for the names in the route's path, in their order. */
  readonly names: readonly string[]
  /** Who asks; set by whoever tells callers apart, before the body is read. */
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

  /** The first name in the path; empty when there is none. */
  get name(): string {
    return this.names[0] ?? ''
  }

  /** Whose form an error has. */
  get form(): ApiForm {
    const { path, headers } = this.head
    const form = this.route?.form ?? (path.startsWith('/v1/messages') ? 'anthropic' : 'openai')
    if (form !== 'either') return form
    return headers['anthropic-version'] === undefined ? 'openai' : 'anthropic'
  }
}
