/**
 * The sum of the terms of `cost: time` for many ranks at once: the same figures as `TIME_TERMS` give one by one
 * (a test compares them), in one pass over the columns. A thousand ranks through nine functions each would cost a decision
 * three times as much.
 */
import { FIRST_TOKEN, WAITING } from '../cost/time-terms.ts'
import { expectedExcess } from '../load/rank-table.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'

/** Only for decisions without tiers behind the device, preferred taints and terms of a user. */
export function fillTimeCosts(
  { table, index, rates, backlog }: PoolParts,
  scope: DecisionScope,
  depths: Int32Array,
  expectedOutput: number,
  slots: Int32Array,
  count: number,
  costs: Float64Array,
): void {
  const { nowMs, promptTokens, blockSize, trackedBlocks, trackPrefill } = scope
  const decodes = scope.query.phase !== 'prefill'
  const { prefillMs, msPerToken, stepMs, stepMsPerRequest, stepMsPerContextToken } = rates
  const { prefillFactor, stepFactor, stepShare } = rates
  const waitShare = Math.max(rates.waitShare, 1)
  const { open, openMs, untilMs, othersUntilMs, waiting, requests, otherRequests } = backlog
  const { contextTokens, beginsMs, lateShare } = backlog
  const { device } = index.matches
  const { activeRequests, reportedRequests, activeDecodeBlocks, reportedDecodeBlocks } = table
  const { totalBlocks, maxSequences } = table
  const sharedSteps = Math.min(expectedOutput, rates.outputTokens)
  const slower = stepMsPerRequest + stepMsPerContextToken * promptTokens
  for (let i = 0; i < count; i++) {
    const slot = slots[i] as number
    const speed = prefillFactor[slot] as number
    const pace = stepFactor[slot] as number
    const opened = open[slot] as number
    const running = (requests[slot] as number) + (otherRequests[slot] as number) - opened
    const contexts = contextTokens[slot] as number
    const active = Math.max(activeRequests[slot] as number, reportedRequests[slot] as number)
    let cost = 0
    if (trackPrefill) {
      const uncached = Math.max(promptTokens - (device[slot] as number) * blockSize, 0)
      const start = speed * prefillMs
      const tokens = speed * msPerToken * uncached
      const held = waiting[slot] as number
      const others = othersUntilMs[slot] as number
      let join = 0
      let wait = others > nowMs ? others - nowMs : 0
      if (opened !== 0) {
        const left = Math.abs((untilMs[slot] as number) - nowMs)
        const work = openMs[slot] as number
        const late = lateShare * work
        const behind = left > late ? left : late
        // Most have begun.
        if ((beginsMs[slot] as number) > nowMs) join = backlog.joinShare(slot, nowMs)
        wait += join === 0 ? behind : (1 - join) * behind + join * Math.max(work - start, 0)
      }
      const step =
        running > 0
          ? pace * (stepMs + stepMsPerRequest * running + stepMsPerContextToken * contexts)
          : 0
      const places = maxSequences[slot] as number
      const excess = active + 1 - places
      let place = 0
      if (places > 0 && excess >= -4) {
        const full = stepMs + stepMsPerRequest * places + stepMsPerContextToken * contexts
        place = (expectedExcess(excess) * rates.outputTokens * pace * full) / places
      }
      const apart = held > 0 ? tokens : start + tokens
      const first = opened - held
      const delayed = join * first * tokens + (1 - join) * held * apart
      const stay = running + (decodes ? first : 0)
      const stalled = running * join * tokens + stay * (1 - join) * apart
      cost =
        WAITING * (waitShare * wait + place + delayed) +
        FIRST_TOKEN * (stepShare * step + start + tokens) +
        stalled
    }
    if (decodes) {
      const beside = running + 1
      const step =
        beside > 0
          ? stepMs + stepMsPerRequest * beside + stepMsPerContextToken * (contexts + promptTokens)
          : 0
      const stretch = trackPrefill ? backlog.promptStretch(slot, nowMs) : 1
      cost += pace * (expectedOutput * step * stretch + active * sharedSteps * slower)
    }
    const total = totalBlocks[slot] as number
    if (total > 0) {
      const held = Math.max(
        Math.round(activeDecodeBlocks[slot] as number),
        reportedDecodeBlocks[slot] as number,
      )
      const more = Math.max(trackedBlocks - (depths[slot] as number), 0)
      const excess = held + more - total
      if (excess > 0) cost += excess * blockSize * speed * msPerToken
    }
    costs[i] = cost
  }
}
