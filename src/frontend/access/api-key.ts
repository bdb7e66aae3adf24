/**
 * What a key allows. The key itself is known to its holder only; here is its hash's name.
 */
export interface ApiKey {
  /** Names the key in logs and lists; a part of the key's text. */
  readonly id: string
  readonly tenant: string
  /** Its part of the capacity while others wait too, against theirs; 1 by default. */
  readonly weight?: number
  /** Absent: every model. */
  readonly models?: readonly string[]
  readonly requestsPerMinute?: number
  /** Prompt and output together. */
  readonly tokensPerMinute?: number
  /** Requests at a time. */
  readonly concurrency?: number
  /** The highest priority that its requests may have. */
  readonly priorityMax?: number
  /** Of its requests that set none, in milliseconds. */
  readonly ttftTargetMs?: number
  readonly itlTargetMs?: number
  readonly expiresAtEpochMs?: number
  /** Metrics, decisions, thresholds, details of health. */
  readonly mayOperate?: boolean
  /** `nvext`, routing headers, tenant headers. */
  readonly mayRoute?: boolean
  /** Its prompts' KV is reused for other tenants, and theirs for it. */
  readonly sharesCache?: boolean
}
