/**
 * How long an entry is valid, and how often its owner and its watchers do something about it: the one place that
 * says so, because renewals that come later than that would make live workers disappear.
 */
export interface Lease {
  /** An entry that was not renewed for so long is gone. */
  readonly ttlMs: number
  readonly renewMs: number
  /** How often a watcher looks when the system reports no change. */
  readonly pollMs: number
}

/** Two renewals may fail before an entry is given up. */
export function leaseOf(ttlMs = 6_000, pollMs = Math.min(1_000, ttlMs / 3)): Lease {
  return { ttlMs, renewMs: ttlMs / 3, pollMs }
}
