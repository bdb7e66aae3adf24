/**
 * When a rank counts as overloaded: above these it is left out of the candidates (kv-router "busy thresholds").
 * They can be changed while the router runs; a partial update overwrites only what it names.
 */
import { BatonError } from '../../base/index.ts'

export interface BusyThresholds {
  /** Share of the rank's KV blocks, 0 to 1. */
  readonly activeDecodeBlocks?: number
  /** Tokens. */
  readonly activePrefillTokens?: number
  /** Share of the rank's max_num_batched_tokens. */
  readonly activePrefillTokensShare?: number
}

/** A worker that does not say how many tokens it batches is taken to have no such bound. */
export const DEFAULT_MAX_BATCHED_TOKENS = 10_000_000

/** Defaults to what was set before; throws `request.invalid_argument`. */
export function mergeBusyThresholds(
  current: BusyThresholds,
  update: BusyThresholds,
): BusyThresholds {
  const merged = { ...current, ...update }
  for (const [name, value] of Object.entries(merged)) {
    const isShare = name === 'activeDecodeBlocks'
    if (!Number.isFinite(value) || value < 0 || (isShare && value > 1)) {
      throw new BatonError(
        'request.invalid_argument',
        `busy threshold '${name}' must be ${isShare ? 'between 0 and 1' : 'at least 0'}, got ${value}`,
        { data: { option: name } },
      )
    }
  }
  return merged
}

export function hasBusyThresholds(thresholds: BusyThresholds): boolean {
  return (
    thresholds.activeDecodeBlocks !== undefined ||
    thresholds.activePrefillTokens !== undefined ||
    thresholds.activePrefillTokensShare !== undefined
  )
}

export function isPrefillOverloaded(
  thresholds: BusyThresholds,
  activePrefillTokens: number,
  maxBatchedTokens: number,
): boolean {
  const { activePrefillTokens: limit, activePrefillTokensShare: share } = thresholds
  if (limit !== undefined && activePrefillTokens > limit) return true
  return share !== undefined && activePrefillTokens > Math.floor(share * maxBatchedTokens)
}

/**
 * The decode latch: set by either signal above the threshold, cleared only when both last known ones are not.
 * An unknown total decides nothing.
 */
export function decodeLatch(
  thresholds: BusyThresholds,
  before: boolean,
  load: { bookedBlocks: number; reportedBlocks: number; totalBlocks: number },
): boolean {
  const share = thresholds.activeDecodeBlocks
  if (share === undefined || load.totalBlocks <= 0) return share === undefined ? false : before
  const limit = share * load.totalBlocks
  return load.bookedBlocks > limit || load.reportedBlocks > limit
}

/** What a rank has too much of. */
export interface Overload {
  readonly kind: 'prefill tokens' | 'decode blocks'
  readonly limit: number
  readonly current: number
}

interface RankLoad {
  readonly prefillTokens: number
  readonly maxBatchedTokens: number
  readonly bookedBlocks: number
  readonly reportedBlocks: number
  readonly totalBlocks: number
}

/** The limit that the load is furthest over; null when it is over none (any more). */
export function overloadOf(thresholds: BusyThresholds, load: RankLoad): Overload | null {
  const { activePrefillTokens: tokens, activePrefillTokensShare, activeDecodeBlocks } = thresholds
  const share =
    activePrefillTokensShare === undefined
      ? undefined
      : Math.floor(activePrefillTokensShare * load.maxBatchedTokens)
  const blocks =
    activeDecodeBlocks === undefined ? undefined : activeDecodeBlocks * load.totalBlocks
  const reached: Overload[] = []
  const look = (kind: Overload['kind'], limit: number | undefined, current: number): void => {
    if (limit !== undefined && current > limit) reached.push({ kind, limit, current })
  }
  look('prefill tokens', tokens, load.prefillTokens)
  look('prefill tokens', share, load.prefillTokens)
  if (load.totalBlocks > 0) {
    look('decode blocks', blocks, Math.max(load.bookedBlocks, load.reportedBlocks))
  }
  return reached.sort((a, b) => excessOf(b) - excessOf(a))[0] ?? null
}

/** How far over its limit, as a ratio. */
export function excessOf({ limit, current }: Overload): number {
  return current / Math.max(limit, 1)
}
