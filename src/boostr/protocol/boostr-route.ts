/** A request to a router of the dialect, and its reply. */
import type { BatonError } from '../../base/index.ts'

export interface BoostrRoute {
  readonly tokenIds: BigInt64Array
  readonly maxNewTokens: number
  readonly sessionKey?: string
}

export interface BoostrReply {
  onToken(tokenId: bigint): void
  /** Exactly one of the two ends the reply. */
  onDone(): void
  onError(error: BatonError): void
}
