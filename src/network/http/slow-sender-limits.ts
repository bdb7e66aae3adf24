/** What a slow client may take, in milliseconds; who takes longer is answered with 408 and cut off. */
export interface SlowSenderLimits {
  readonly headMs: number
  /** The head and the whole body. */
  readonly requestMs: number
  /** How often both are looked at. */
  readonly checkMs: number
}
