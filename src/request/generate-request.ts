/**
 * A request as the router and the workers see it: tokens in, tokens out. Text ends at the frontend.
 */
import type { ForwardedRequest } from './forwarded-request.ts'
import type { BootstrapInfo, PrefillResult } from './kv-transfer.ts'
import type { RoutingHints } from './routing-hints.ts'
import type { OutputOptions, Sampling, StopConditions } from './sampling.ts'

export interface GenerateRequest {
  /** Absent: tokens are wanted. `embed`: one vector of the prompt and no token. */
  readonly kind?: 'embed'
  /** Unique in the fleet; what logs, headers and explain records call it. */
  readonly requestId: string
  readonly model: string
  readonly tokenIds: Uint32Array
  readonly sampling: Sampling
  readonly stop: StopConditions
  readonly output: OutputOptions
  readonly eosTokenIds: readonly number[]
  readonly routing: RoutingHints
  readonly prefillResult?: PrefillResult
  readonly bootstrap?: BootstrapInfo
  /**
   * Tokens at the end of `tokenIds` that an earlier worker generated (migration). A seeded sampler goes on at this
   * index, penalties and minTokens count them.
   */
  readonly resumedTokens?: number
  readonly requestTimestampMs?: number
  /** W3C trace context of the caller. */
  readonly traceparent?: string
  /** A health canary: not counted, not published. */
  readonly isProbe?: boolean
  /** The client's own request goes to the engine instead; `tokenIds` are for routing only. Stays in this process. */
  readonly forward?: ForwardedRequest
  /** What only a particular engine reads. */
  readonly extra?: Readonly<Record<string, unknown>>
}
