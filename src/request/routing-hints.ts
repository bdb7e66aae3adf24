/**
 * What a client may say about where its request runs (nvext and headers); see `api` for how it says it.
 */
import type { WorkerId } from '../base/index.ts'
import type { LatencyGoals } from './latency-goals.ts'

export interface RoutingHints {
  /** Aggregated direct target; a hard pin. */
  readonly backendWorkerId?: WorkerId
  readonly prefillWorkerId?: WorkerId
  readonly decodeWorkerId?: WorkerId
  readonly dpRank?: number
  readonly prefillDpRank?: number
  /** Output length that the client expects, in tokens. */
  readonly expectedOutputTokens?: number
  readonly loraName?: string
  /** Keeps cache contents of tenants apart: part of every block hash. */
  readonly cacheSalt?: string
  /** Higher is more important. The router's queue reads it as seconds of head start, an engine as it likes. */
  readonly priority?: number
  readonly strictPriority?: number
  readonly policyClass?: string
  readonly goals?: LatencyGoals
  readonly tenantId?: string
  /** The tenant's part of the capacity while others wait too, against theirs; 1 by default. */
  readonly tenantWeight?: number
  readonly sessionId?: string
  readonly sessionAction?: 'open' | 'close' | 'bind'
  readonly sessionTimeoutSeconds?: number
  readonly allowedWorkerIds?: readonly WorkerId[]
  readonly excludedWorkerIds?: readonly WorkerId[]
  readonly requiredTaints?: readonly string[]
  readonly preferredTaints?: Readonly<Record<string, number>>
  /** The token ids are not those of the engine's tokenizer: what engines announce cannot be compared with them. */
  readonly isEstimated?: boolean
  /** Set by the router: not worth a prefill worker, one worker does both. */
  readonly bypassesPrefill?: boolean
  /** Route and answer with the ids only; nothing is booked, no engine is called. */
  readonly queryOnly?: boolean
  readonly overrides?: RouterOverrides
}

/** Per-request overrides of the router's configuration. */
export interface RouterOverrides {
  /** Older name: sets `prefillLoadScale`, and 0 also takes the overlap credit away. */
  readonly overlapScoreWeight?: number
  readonly overlapScoreCredit?: number
  readonly prefillLoadScale?: number
  readonly sharedCacheMultiplier?: number
  readonly temperature?: number
  readonly assumeKvReuse?: boolean
  readonly trackPrefillTokens?: boolean
}
