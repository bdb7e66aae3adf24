/**
 * What a wait needs to know of whoever may give it up. An `AbortSignal` is one; what is made for every request can be
 * lighter.
 */
export interface CancelSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}
