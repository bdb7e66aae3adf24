/**
 * The part of an `AbortSignal` that a wait needs to be cancelled by its caller. Signals that are created for every
 * request can be lighter than an `AbortSignal`.
 */
export interface CancelSignal {
  readonly aborted: boolean
  /** A text with the reason, unless the caller cancelled on its own. */
  readonly reason?: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}
