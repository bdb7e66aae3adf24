/** Time limits for slow clients in milliseconds; slower clients get 408 and are disconnected. */
export interface SlowSenderLimits {
  readonly headMs: number
  /** For the head and the whole body. */
  readonly requestMs: number
  /** Interval of the checks. */
  readonly checkMs: number
}
