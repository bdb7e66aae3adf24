/**
 * How long an entry is valid, and how often its owner renews it and its watchers check it. Defined in one place,
 * because too rare renewals would make live workers expire.
 */
export interface Lease {
  /** An entry that was not renewed for this time has expired. */
  readonly ttlMs: number
  readonly renewMs: number
  /** Interval of checks when the system reports no change. */
  readonly pollMs: number
}

/** Two renewals may fail before an entry expires. */
export function leaseOf(ttlMs = 6_000, pollMs = Math.min(1_000, ttlMs / 3)): Lease {
  return { ttlMs, renewMs: ttlMs / 3, pollMs }
}
