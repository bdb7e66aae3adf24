/**
 * The built-in cost terms of `cost: time`, in milliseconds: how long the request waits on this rank, and how much it
 * delays the other requests there. The rates are learned per rank (`load/rank-rates.ts`), so no weight has to be
 * tuned to a fleet.
 *
 *   cost = (queue + step + prefill + risk + delay + arrivals + decode + stall + slowdown + later + memory + transfer + goals) × taints
 *          (each times its weight)
 *
 * The weights express importance, not speed. Users wait for the first token, while later tokens arrive faster than
 * they are read: a millisecond before the first token counts `FIRST_TOKEN` times. Queueing time counts half as much
 * again, because it can still grow when other requests join, while the time of the request's own prefill is fixed.
 * docs/routing-quality.md has the measurements, also for other values.
 */
import type { Candidate } from './candidate.ts'
import type { BuiltInTerm } from './cost-term.ts'
import { TAINTS_TERM } from './taints-term.ts'

export const FIRST_TOKEN = 12
export const WAITING = 1.5 * FIRST_TOKEN
/** Larger than the sum of all other terms, so that meeting a latency goal always wins. */
export const LATE = 1e6

export const TIME_TERMS = [
  {
    name: 'queue',
    unit: 'ms',
    role: 'add',
    weight: WAITING,
    help: 'until the batch has a free place and the prompts queued before this one are computed',
    // A prompt that was computed elsewhere waits for a place, too.
    of: (candidate) => (candidate.tracksPrefill ? candidate.waitMs : 0) + candidate.placeMs,
  },
  {
    name: 'step',
    unit: 'ms',
    role: 'add',
    weight: FIRST_TOKEN,
    help: 'until the engine step in progress has ended, and for the decode part of the step that computes the prompt',
    of: (candidate) => {
      if (!candidate.tracksPrefill) return 0
      return candidate.stepShare * (candidate.restMs + stepMsOf(candidate, 0, 0))
    },
  },
  {
    name: 'prefill',
    unit: 'ms',
    role: 'add',
    weight: FIRST_TOKEN,
    help: 'until the uncached part of the prompt is computed',
    of: ownPrefillMs,
  },
  {
    name: 'risk',
    unit: 'ms',
    role: 'add',
    weight: FIRST_TOKEN,
    help: 'that a rank without measurements is slower than the others, as far as its first prompt is late',
    applies: ({ hasUntried }) => hasUntried,
    of: (candidate) => candidate.riskMs,
  },
  {
    name: 'delay',
    unit: 'ms',
    role: 'add',
    weight: WAITING,
    help: 'delay of the requests that wait there for their first token, because their prompts are computed together with this one',
    of: (candidate) => {
      const { joinShare, waitingRequests, firstRequests } = candidate
      const joined = joinShare * firstRequests * tokensMs(candidate)
      return joined + (1 - joinShare) * waitingRequests * separateStepMs(candidate)
    },
  },
  {
    name: 'arrivals',
    unit: 'ms',
    role: 'add',
    weight: WAITING,
    help: 'delay of requests that have yet to arrive, by as many as usually wait on a rank: it makes reuse of cached prompts more important under load',
    of: (candidate) => candidate.promptsBehind * tokensMs(candidate),
  },
  {
    name: 'decode',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'time for its output tokens, at the step time of the rank with one more request and with its recent share of prefill',
    of: (candidate) => {
      if (candidate.phase === 'prefill') return 0
      const stepsMs =
        candidate.expectedOutputTokens * stepMsOf(candidate, 1, candidate.promptTokens)
      return stepsMs / (1 - (candidate.tracksPrefill ? candidate.promptShare : 0))
    },
  },
  {
    name: 'stall',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'delay of the requests that decode there while this prompt is computed, now or after their own prefill',
    of: (candidate) => {
      const { joinShare, runningRequests, firstRequests } = candidate
      const separateMs = (1 - joinShare) * separateStepMs(candidate)
      const added = joinShare * tokensMs(candidate) + separateMs
      const stay = candidate.phase === 'prefill' ? 0 : firstRequests
      return runningRequests * added + stay * separateMs
    },
  },
  {
    name: 'slowdown',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'delay of the requests that decode there, because each step has one more request',
    of: (candidate) => {
      if (candidate.phase === 'prefill') return 0
      const { activeRequests, expectedOutputTokens, usualOutputTokens, promptTokens } = candidate
      const tokens = Math.min(expectedOutputTokens, usualOutputTokens)
      const { stepMsPerRequest, stepMsPerContextToken } = candidate
      return activeRequests * tokens * (stepMsPerRequest + stepMsPerContextToken * promptTokens)
    },
  },
  {
    name: 'later',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'cost of the later turns of its session, which will follow to the same rank, among the sessions that are bound there',
    applies: ({ hasLater }) => hasLater,
    of: (candidate) => {
      const { laterTurns, laterTokens, boundRequests, usualOutputTokens, promptTokens } = candidate
      const { stepMs, stepMsPerRequest, stepMsPerContextToken } = candidate
      const promptMs = candidate.prefillMs + candidate.msPerPromptToken * laterTokens
      const slowerMs = stepMsPerRequest + stepMsPerContextToken * promptTokens
      // Factor 2: delaying other sessions costs as much as being delayed by them, and both happen.
      const othersMs = 2 * boundRequests * (usualOutputTokens * slowerMs + promptMs)
      const ownMs = FIRST_TOKEN * promptMs + usualOutputTokens * (stepMs + slowerMs)
      return laterTurns * (ownMs + othersMs)
    },
  },
  {
    name: 'memory',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'recomputation when the KV blocks of the rank do not suffice',
    of: (candidate) => {
      const { totalBlocks, activeDecodeBlocks, additionalBlocks, blockSize } = candidate
      if (totalBlocks === null) return 0
      const excess = Math.max(activeDecodeBlocks + additionalBlocks - totalBlocks, 0)
      return excess * blockSize * candidate.msPerPromptToken
    },
  },
  {
    name: 'transfer',
    unit: 'ms',
    role: 'add',
    weight: FIRST_TOKEN,
    help: 'KV transfer of the blocks that the rank lacks from the prefill worker; for a prefill worker: transfer to its best decode worker',
    applies: ({ hasTransfer }) => hasTransfer,
    of: (candidate) => candidate.transferMs,
  },
  {
    name: 'goals',
    unit: 'ms',
    role: 'add',
    weight: LATE,
    help: "time by which the request's latency goals are predicted to be missed; outweighs all other terms",
    applies: ({ hasGoals }) => hasGoals,
    of: (candidate) => candidate.goalLateMs,
  },
  TAINTS_TERM,
] as const satisfies readonly BuiltInTerm[]

function uncachedTokens(candidate: Candidate): number {
  return Math.max(candidate.promptTokens - candidate.cachedTokens, 0)
}

function ownPrefillMs(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  return candidate.prefillMs + tokensMs(candidate)
}

/** Time to compute the request's own uncached tokens within a step that computes prompts anyway. */
function tokensMs(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  return candidate.msPerPromptToken * uncachedTokens(candidate)
}

/**
 * Time that the prompt takes of the rank if it is computed in a step of its own. If other prompts are already queued
 * for such a step, the step's fixed cost is not added.
 */
function separateStepMs(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  return (candidate.waitingRequests > 0 ? 0 : candidate.prefillMs) + tokensMs(candidate)
}

/** Duration of a decode step with this many additional requests and context tokens; 0 if nothing decodes there. */
function stepMsOf(candidate: Candidate, requests: number, contextTokens: number): number {
  const running = candidate.runningRequests + requests
  if (running <= 0) return 0
  return (
    candidate.stepMs +
    candidate.stepMsPerRequest * running +
    candidate.stepMsPerContextToken * (candidate.contextTokens + contextTokens)
  )
}
