/**
 * What is known of a route without asking it: what it is asked by, what it may be sent, who may ask.
 */

/**
 * Who may call a route, where callers are distinguished: `anyone` (a load balancer has no key), `client` (whoever may use
 * the service), `operator` (whoever runs it).
 */
export type Access = 'anyone' | 'client' | 'operator'

/** Whose form errors have. */
export type ApiForm = 'openai' | 'anthropic'

export interface RouteFacts {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** May have names in braces, each a segment: `/v1/files/{id}/content`; `{id...}` is all that is left: `/v1/models/{id...}`. */
  readonly path: string
  readonly access: Access
  /** `none`: not read. `large`: up to the limit of the service. Otherwise up to so many bytes. */
  readonly body: 'none' | 'large' | number
  /** `either`: as the client's headers say. */
  readonly form: ApiForm | 'either'
}
