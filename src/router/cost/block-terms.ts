/**
 * The built-in cost terms of `cost: blocks`, in KV blocks. A new term is added here only: its option, default, record
 * column and documentation are derived from the entry.
 *
 *   credit = device + host + disk + shared                               (each times its weight)
 *   cost   = (max(prefill − credit, 0) + decode + requests) × taints      (each times its weight)
 *
 * A decode leg whose prefill is not tracked has no prefill term; there the credit is subtracted from the decode
 * blocks.
 *
 * The formula is Dynamo's KV router cost. `prefillLoadScale` and `decodeActiveRequestWeight` have other defaults
 * (Dynamo: 1 and 0). With a scale of 1 the active blocks of a worker outweigh its cached prefix, and a fifth of the
 * possible cache hits is lost. The request weight keeps requests with a popular prefix, whose shared blocks count
 * only once, from concentrating on one worker. docs/performance.md has the measurements.
 */
import type { Candidate } from './candidate.ts'
import type { BuiltInTerm } from './cost-term.ts'
import { TAINTS_TERM } from './taints-term.ts'

export const BLOCK_TERMS = [
  {
    name: 'device',
    unit: 'blocks',
    role: 'credit',
    weight: {
      option: 'overlapScoreCredit',
      default: 1,
      help: 'weight of blocks that the worker holds on its device',
    },
    help: 'blocks cached on the device; counts less on ranks with more prefill in flight (`overlapScoreCreditDecay`)',
    of: (candidate) => candidate.decay * candidate.deviceBlocks,
  },
  {
    name: 'host',
    unit: 'blocks',
    role: 'credit',
    weight: {
      option: 'hostCacheHitWeight',
      default: 0.75,
      help: 'weight of blocks in host memory',
    },
    help: 'cached in host memory',
    applies: ({ hasLowerTiers }) => hasLowerTiers,
    of: (candidate) => candidate.hostBlocks,
  },
  {
    name: 'disk',
    unit: 'blocks',
    role: 'credit',
    weight: { option: 'diskCacheHitWeight', default: 0.25, help: 'weight of blocks on disk' },
    help: 'cached on disk',
    applies: ({ hasLowerTiers }) => hasLowerTiers,
    of: (candidate) => candidate.diskBlocks,
  },
  {
    name: 'shared',
    unit: 'blocks',
    role: 'credit',
    weight: {
      option: 'sharedCacheMultiplier',
      default: 0,
      help: 'weight of blocks in a cache that all workers share',
    },
    help: 'blocks in the shared cache that are not on the device',
    applies: ({ hasShared }) => hasShared,
    of: (candidate) => candidate.sharedBlocks,
  },
  {
    name: 'prefill',
    unit: 'blocks',
    role: 'add',
    weight: {
      option: 'prefillLoadScale',
      default: 16,
      help: 'weight of blocks to compute relative to active blocks',
    },
    help: 'blocks of the prompt and of all prefill in flight',
    isLowered: () => true,
    of: prefillBlocksOf,
  },
  {
    name: 'decode',
    unit: 'blocks',
    role: 'add',
    weight: 1,
    help: 'active blocks, plus those that the request would add',
    isLowered: ({ isDecode, trackPrefill, overlapScoreCredit }) =>
      isDecode && !trackPrefill && overlapScoreCredit > 0,
    of: (candidate) => candidate.activeDecodeBlocks + candidate.additionalBlocks,
  },
  {
    name: 'requests',
    unit: 'requests',
    role: 'add',
    weight: {
      option: 'decodeActiveRequestWeight',
      default: 128,
      help: 'number of blocks that each active request counts for',
    },
    help: 'active requests',
    of: (candidate) => candidate.activeRequests,
  },
  TAINTS_TERM,
] as const satisfies readonly BuiltInTerm[]

type BlockTerm = (typeof BLOCK_TERMS)[number]
export type WeightName = Exclude<BlockTerm['weight'], 1>['option']

/**
 * Blocks to prefill before the first token: prefill in flight plus the whole prompt. Cached blocks are subtracted by
 * the credits.
 */
function prefillBlocksOf(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  const own = Math.max(candidate.promptTokens, candidate.cachedTokens)
  return (candidate.activePrefillTokens + own) / candidate.blockSize
}
