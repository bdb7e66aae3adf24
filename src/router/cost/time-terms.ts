/**
 * The built-in cost terms of `cost: time`, in milliseconds: what the request waits for here, and what the others here
 * lose by it. The rates are learned per rank (`load/rank-rates.ts`), so that no weight has to be tuned to a fleet.
 *
 *   cost = (queue + step + prefill + delay + decode + stall + slowdown + later + memory + transfer + goals) × taints       (each times its weight)
 *
 * The weights say what is worth more, not how fast anything is. A reader waits for the first token, while later ones come
 * faster than they are read: a millisecond before it counts `FIRST_TOKEN` times. And a wait may grow, because others join
 * it, while a prompt of one's own takes what it takes: it counts half as much again. docs/routing-quality.md has the
 * figures, also for other values.
 */
import type { Candidate } from './candidate.ts'
import type { BuiltInTerm } from './cost-term.ts'

export const FIRST_TOKEN = 12
export const WAITING = 1.5 * FIRST_TOKEN
/** Above anything that the other terms come to. */
export const LATE = 1e6

export const TIME_TERMS = [
  {
    name: 'queue',
    unit: 'ms',
    role: 'add',
    weight: WAITING,
    help: 'until its batch has a place and the prompts before this one are computed',
    of: (candidate) => (candidate.tracksPrefill ? candidate.waitMs + candidate.placeMs : 0),
  },
  {
    name: 'step',
    unit: 'ms',
    role: 'add',
    weight: FIRST_TOKEN,
    help: 'until the step under way has ended',
    of: (candidate) =>
      candidate.tracksPrefill ? candidate.stepShare * stepMsOf(candidate, 0, 0) : 0,
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
    name: 'delay',
    unit: 'ms',
    role: 'add',
    weight: WAITING,
    help: 'what those lose that wait there for their first token: their prompts are computed together with this one',
    of: (candidate) => {
      const { joinShare, waitingRequests, firstRequests } = candidate
      const joined = joinShare * firstRequests * tokensMs(candidate)
      return joined + (1 - joinShare) * waitingRequests * apartMs(candidate)
    },
  },
  {
    name: 'decode',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'its output, at the pace that the rank has with one request more and as many prompts between its steps as of late',
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
    help: 'what those that decode there lose while the prompt is computed, and those that will when it is',
    of: (candidate) => {
      const { joinShare, runningRequests, firstRequests } = candidate
      const apart = (1 - joinShare) * apartMs(candidate)
      const added = joinShare * tokensMs(candidate) + apart
      const stay = candidate.phase === 'prefill' ? 0 : firstRequests
      return runningRequests * added + stay * apart
    },
  },
  {
    name: 'slowdown',
    unit: 'ms',
    role: 'add',
    weight: 1,
    help: 'what those that decode there lose while it decodes with them',
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
    help: 'the same of the next turns of its session, which will go where it goes, among the sessions that are there',
    applies: ({ hasLater }) => hasLater,
    of: (candidate) => {
      const { laterTurns, laterTokens, boundRequests, usualOutputTokens, promptTokens } = candidate
      const { stepMs, stepMsPerRequest, stepMsPerContextToken } = candidate
      const promptMs = candidate.prefillMs + candidate.msPerPromptToken * laterTokens
      const slowerMs = stepMsPerRequest + stepMsPerContextToken * promptTokens
      // What those there lose by it, it loses by them.
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
    help: 'what has to be computed again when the blocks do not suffice',
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
    help: 'until what it does not hold of the prompt has come from the prefill worker; of a prefill worker: until the prompt has come to the decode worker nearest to it',
    applies: ({ hasTransfer }) => hasTransfer,
    of: (candidate) => candidate.transferMs,
  },
  {
    name: 'goals',
    unit: 'ms',
    role: 'add',
    weight: LATE,
    help: "by how much the request's latency goals are predicted to be missed: before anything else counts",
    applies: ({ hasGoals }) => hasGoals,
    of: (candidate) => candidate.goalLateMs,
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

function uncachedTokens(candidate: Candidate): number {
  return Math.max(candidate.promptTokens - candidate.cachedTokens, 0)
}

function ownPrefillMs(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  return candidate.prefillMs + tokensMs(candidate)
}

/** Of its own tokens, in a step that computes prompts anyway. */
function tokensMs(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  return candidate.msPerPromptToken * uncachedTokens(candidate)
}

/** What it takes of the rank's time unless it is computed with those that have been sent first; where others wait there is a step already. */
function apartMs(candidate: Candidate): number {
  if (!candidate.tracksPrefill) return 0
  return (candidate.waitingRequests > 0 ? 0 : candidate.prefillMs) + tokensMs(candidate)
}

/** Of a step there with so many requests and tokens of context more; 0 when nobody decodes. */
function stepMsOf(candidate: Candidate, requests: number, contextTokens: number): number {
  const running = candidate.runningRequests + requests
  if (running <= 0) return 0
  return (
    candidate.stepMs +
    candidate.stepMsPerRequest * running +
    candidate.stepMsPerContextToken * (candidate.contextTokens + contextTokens)
  )
}
