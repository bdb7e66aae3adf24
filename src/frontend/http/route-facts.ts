/**
 * The static facts of a route: method, path, limit of the body, access.
 */

/**
 * Who may call a route when keys are required: `anyone` (a load balancer has no key), `client` (holders of a
 * key), `operator` (holders of an operator's key).
 */
export type Access = 'anyone' | 'client' | 'operator'

/** The API whose error format is used. */
export type ApiForm = 'openai' | 'anthropic'

export interface RouteFacts {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /**
   * May contain names in braces, each for one segment (`/v1/files/{id}/content`); `{id...}` matches the rest of
   * the path (`/v1/models/{id...}`).
   */
  readonly path: string
  readonly access: Access
  /** `none`: not read. `large`: up to the limit of the service. A number: up to this many bytes. */
  readonly body: 'none' | 'large' | number
  /** `either`: determined by the client's headers. */
  readonly form: ApiForm | 'either'
}
