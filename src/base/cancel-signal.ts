/**
 * What a wait needs of its caller's cancel signal. An `AbortSignal` is one; what is made for every request can be
 * lighter.
 */
export interface CancelSignal {
  readonly aborted: boolean
  /** A text: why, where it was not the caller's own wish. */
  readonly reason?: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}
