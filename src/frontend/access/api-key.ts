/**
 * What a key allows. Only its holder knows the key itself; the server knows its hash.
 */
export interface ApiKey {
  /** Identifies the key in logs and lists; it is part of the key's text. */
  readonly id: string
  readonly tenant: string
  /** The weight of its tenant when tenants compete for capacity; default 1. */
  readonly weight?: number
  /** Absent: every model. */
  readonly models?: readonly string[]
  readonly requestsPerMinute?: number
  /** Prompt and output tokens together. */
  readonly tokensPerMinute?: number
  /** Most requests at the same time. */
  readonly concurrency?: number
  /** Highest priority that its requests may have. */
  readonly priorityMax?: number
  /** TTFT goal in milliseconds for its requests that set none. */
  readonly ttftTargetMs?: number
  readonly itlTargetMs?: number
  readonly expiresAtEpochMs?: number
  /** Allows metrics, routing decisions, thresholds and details of health. */
  readonly mayOperate?: boolean
  /** Allows `nvext`, routing headers and tenant headers. */
  readonly mayRoute?: boolean
  /** The cached KV of its prompts is shared with other tenants in both directions. */
  readonly sharesCache?: boolean
}
