/**
 * The built-in cost terms of `cost: time`, in milliseconds: what the request waits for here, and what the others here
 * lose by it. The rates are learned per rank (`load/rank-rates.ts`), so that no weight has to be tuned to a fleet.
 *
 *   cost = (queue + prefill + decode + stall + displaced + memory) × taints
 */
import type { Candidate } from './candidate.ts'
import type { BuiltInTerm } from './cost-term.ts'

export const TIME_TERMS = [
  {
    name: 'queue',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'until the prompts before this one are computed',
    of: (candidate) => candidate.msPerPromptToken * tokensAhead(candidate),
  },
  {
    name: 'prefill',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'until the uncached part of the prompt is computed',
    of: (candidate) =>
      candidate.tracksPrefill
        ? candidate.prefillMs + candidate.msPerPromptToken * uncachedTokens(candidate)
        : 0,
  },
  {
    name: 'decode',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'its output, at the pace that the rank has with one request more',
    of: (candidate) => {
      if (candidate.phase === 'prefill') return 0
      const { stepMs, stepMsPerRequest, activeRequests, expectedOutputTokens } = candidate
      return expectedOutputTokens * (stepMs + stepMsPerRequest * (activeRequests + 1))
    },
  },
  {
    name: 'stall',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'what those that decode there lose while the prompt is computed',
    of: (candidate) =>
      candidate.tracksPrefill && candidate.phase !== 'prefill'
        ? candidate.activeRequests * candidate.msPerPromptToken * uncachedTokens(candidate)
        : 0,
  },
  {
    name: 'displaced',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'what later requests lose: new blocks take the place of cached ones, as often used as the cache of the pool is',
    of: (candidate) =>
      candidate.tracksPrefill
        ? candidate.reuseShare * candidate.msPerPromptToken * uncachedTokens(candidate)
        : 0,
  },
  {
    name: 'memory',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'what has to be computed again when the blocks do not suffice',
    of: (candidate) => {
      const { totalBlocks, activeDecodeBlocks, additionalBlocks, blockSize } = candidate
      if (totalBlocks === null) return 0
      const excess = Math.max(activeDecodeBlocks + additionalBlocks - totalBlocks, 0)
      return excess * blockSize * candidate.msPerPromptToken
    },
  },
  {
    name: 'taints',
    unit: 'factor',
    role: 'factor',
    weight: 1,
    help: 'exp(−tanh(Σ weights)) of the preferred taints that the worker has',
    applies: ({ hasPreferredTaints }) => hasPreferredTaints,
    of: (candidate) => candidate.taintFactor,
  },
] as const satisfies readonly BuiltInTerm[]

function tokensAhead(candidate: Candidate): number {
  return candidate.tracksPrefill ? candidate.activePrefillTokens : 0
}

function uncachedTokens(candidate: Candidate): number {
  return Math.max(candidate.promptTokens - candidate.cachedTokens, 0)
}
