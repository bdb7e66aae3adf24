/** A request as routers and workers see it: token ids in, token ids out. Text is handled in the frontend. */
import type { ForwardedRequest } from './forwarded-request.ts'
import type { BootstrapInfo, PrefillResult } from './kv-transfer.ts'
import type { RoutingHints } from './routing-hints.ts'
import type { OutputOptions, Sampling, StopConditions } from './sampling.ts'

export interface GenerateRequest {
  /** Absent: generate tokens. `embed`: return one embedding vector of the prompt and no tokens. */
  readonly kind?: 'embed'
  /** Unique in the fleet; used in logs, headers and explain records. */
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
   * Number of tokens at the end of `tokenIds` that an earlier worker generated (migration). A seeded sampler
   * continues at this index; penalties and minTokens count these tokens.
   */
  readonly resumedTokens?: number
  readonly requestTimestampMs?: number
  /** W3C trace context of the caller. */
  readonly traceparent?: string
  /** A health probe: not counted in metrics, not published. */
  readonly isProbe?: boolean
  /**
   * The client's original request, which is sent to the engine; `tokenIds` are then only for routing. Never
   * serialised.
   */
  readonly forward?: ForwardedRequest
  /** Engine-specific parameters. */
  readonly extra?: Readonly<Record<string, unknown>>
}
