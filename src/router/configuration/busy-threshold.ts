/**
 * When a rank counts as overloaded. A rank above one of these thresholds is not a candidate (Dynamo calls them "busy
 * thresholds"). They can be changed while the router runs; a partial update overwrites only the fields that it names.
 */
import { BatonError } from '../../base/index.ts'

export interface BusyThresholds {
  /** Share of the rank's KV blocks, 0 to 1. */
  readonly activeDecodeBlocks?: number
  /** Prefill tokens in flight on the rank. */
  readonly activePrefillTokens?: number
  /** Prefill tokens in flight as a share of the rank's `max_num_batched_tokens`. */
  readonly activePrefillTokensShare?: number
}

/** Assumed for a worker that does not report `max_num_batched_tokens`: large enough to mean "no limit". */
export const DEFAULT_MAX_BATCHED_TOKENS = 10_000_000

/** `current` with the fields of `update` replaced. Throws `request.invalid_argument` for a value out of range. */
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
 * Whether a rank is overloaded by decode blocks, with hysteresis: the state is set when the booked or the reported
 * block count is above the threshold, and cleared only when both known counts are at or below it. If the total number
 * of blocks is not known, the rank is never overloaded by blocks.
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

/** The threshold that a rank exceeds, with its current value. */
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

/** The threshold that the load exceeds by the largest ratio; null if it exceeds none. */
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

/** Current value divided by the limit: above 1 means overloaded. */
export function excessOf({ limit, current }: Overload): number {
  return current / Math.max(limit, 1)
}
