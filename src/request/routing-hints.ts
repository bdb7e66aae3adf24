/** What a client may request about routing; room `api` parses it from nvext and headers. */
import type { WorkerId } from '../base/index.ts'
import type { LatencyGoals } from './latency-goals.ts'

export interface RoutingHints {
  /** Worker of an aggregated request, or of both legs; must be followed. */
  readonly backendWorkerId?: WorkerId
  readonly prefillWorkerId?: WorkerId
  readonly decodeWorkerId?: WorkerId
  readonly dpRank?: number
  readonly prefillDpRank?: number
  /** Output length expected by the client, in tokens. */
  readonly expectedOutputTokens?: number
  readonly loraName?: string
  /** Separates the cache contents of tenants; it is part of every block hash. */
  readonly cacheSalt?: string
  /**
   * Higher is more important. In the router's queue one point is one second of earlier arrival; passed on to the
   * engine.
   */
  readonly priority?: number
  readonly strictPriority?: number
  readonly policyClass?: string
  readonly goals?: LatencyGoals
  readonly tenantId?: string
  /** The tenant's share of the capacity relative to other tenants with queued requests; 1 by default. */
  readonly tenantWeight?: number
  readonly sessionId?: string
  readonly sessionAction?: 'open' | 'close' | 'bind'
  readonly sessionTimeoutSeconds?: number
  readonly allowedWorkerIds?: readonly WorkerId[]
  readonly excludedWorkerIds?: readonly WorkerId[]
  readonly requiredTaints?: readonly string[]
  /**
   * Set by the frontend: the request needs features of engines. Workers that do not state theirs (Baton 0.1) may ignore
   * what it asks for and generate nothing of it. Not a list of workers: the fleet changes while a request waits or runs.
   */
  readonly needsStatedFeatures?: boolean
  readonly preferredTaints?: Readonly<Record<string, number>>
  /** The token ids are not from the engine's tokenizer, so they cannot be matched with the engine's KV events. */
  readonly isEstimated?: boolean
  /** Set by the router: conditional disaggregation chose one worker for both phases. */
  readonly bypassesPrefill?: boolean
  /** Route only and return the worker ids; nothing is booked and no engine is called. */
  readonly queryOnly?: boolean
  readonly overrides?: RouterOverrides
}

/** Per-request overrides of the router's configuration. */
export interface RouterOverrides {
  /** Dynamo's older name: sets `prefillLoadScale`, and 0 also disables the overlap credit. */
  readonly overlapScoreWeight?: number
  readonly overlapScoreCredit?: number
  readonly prefillLoadScale?: number
  readonly sharedCacheMultiplier?: number
  readonly temperature?: number
  readonly assumeKvReuse?: boolean
  readonly trackPrefillTokens?: boolean
}
