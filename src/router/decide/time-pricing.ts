/**
 * The terms of `cost: time` summed for many ranks in one pass over the columns. Same values as `TIME_TERMS` (a test
 * compares them); evaluating nine functions for each of a thousand ranks would make a decision three times as slow.
 */
import { FIRST_TOKEN, WAITING } from '../cost/time-terms.ts'
import { ROW, ROW_SIZE } from '../load/price-rows.ts'
import { stretchOf } from '../load/rank-backlog.ts'
import { restOfStep } from '../rates/step-phase.ts'
import { expectedExcess } from './expected-excess.ts'
import type { CheapestRanks } from './cheapest-ranks.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'

/**
 * Adds to `costs`. Only for decisions without host or disk tiers, preferred taints and user-defined terms. With
 * `best`, the cost of a rank that is not among the best may lack its last terms, but is still above theirs.
 */
export function fillTimeCosts(
  { index, rates, backlog, rows, table }: PoolParts,
  scope: DecisionScope,
  depths: Int32Array,
  expectedOutput: number,
  slots: Int32Array,
  count: number,
  costs: Float64Array,
  best: CheapestRanks | null,
): void {
  const { nowMs, promptTokens, blockSize, trackedBlocks, trackPrefill, again } = scope
  const decodes = scope.query.phase !== 'prefill'
  const { prefillMs, msPerToken, stepMs, stepMsPerRequest, stepMsPerContextToken } = rates
  const { stepShare } = rates
  const waitShare = Math.max(rates.waitShare, 1)
  const { lateShare } = backlog
  const promptsBehind = backlog.behind / Math.max(table.live.length, 1)
  const { device } = index.matches
  const { cells } = rows
  const sharedSteps = Math.min(expectedOutput, rates.outputTokens)
  const slower = stepMsPerRequest + stepMsPerContextToken * promptTokens
  for (let i = 0; i < count; i++) {
    const slot = slots[i] as number
    const at = slot * ROW_SIZE
    const speed = cells[at + ROW.prefillFactor] as number
    const pace = cells[at + ROW.stepFactor] as number
    const running = cells[at + ROW.running] as number
    const contexts = cells[at + ROW.contextTokens] as number
    const active = cells[at + ROW.active] as number
    let cost = costs[i] as number
    const places = cells[at + ROW.places] as number
    const excess = active + 1 - places
    let place = 0
    if (places > 0 && excess >= -4) {
      const full = stepMs + stepMsPerRequest * places + stepMsPerContextToken * contexts
      place = (expectedExcess(excess) * rates.outputTokens * pace * full) / rates.endsApart(places)
    }
    if (trackPrefill) {
      const cached = (device[slot] as number) * blockSize - (again[slot] as number)
      const uncached = Math.max(promptTokens - cached, 0)
      const start = speed * prefillMs
      const tokens = speed * msPerToken * uncached
      const opened = cells[at + ROW.open] as number
      const held = cells[at + ROW.waiting] as number
      const others = cells[at + ROW.othersUntilMs] as number
      const step =
        running > 0
          ? pace * (stepMs + stepMsPerRequest * running + stepMsPerContextToken * contexts)
          : 0
      let join = 0
      let rest = 0
      let wait = others > nowMs ? others - nowMs : 0
      if (opened !== 0) {
        const left = Math.abs((cells[at + ROW.untilMs] as number) - nowMs)
        const work = cells[at + ROW.openMs] as number
        const late = lateShare * work
        const behind = left > late ? left : late
        // In most cases the prefill has already begun.
        if ((cells[at + ROW.beganMs] as number) > nowMs) {
          join = backlog.joinShare(slot, nowMs)
          rest = backlog.restMs(slot, step, nowMs)
        }
        wait += join === 0 ? behind : (1 - join) * behind + join * Math.max(work - start, 0)
      } else if (step > 0) rest = restOfStep(nowMs - (cells[at + ROW.stepEndMs] as number), step)
      const apart = held > 0 ? tokens : start + tokens
      const first = opened - held
      const delayed = join * first * tokens + (1 - join) * held * apart
      const stay = running + (decodes ? first : 0)
      const stalled = running * join * tokens + stay * (1 - join) * apart
      cost +=
        WAITING * (waitShare * wait + place + delayed + promptsBehind * tokens) +
        FIRST_TOKEN * (stepShare * (rest + step) + start + tokens) +
        stalled
      // No term is below 0.
      if (best !== null && cost > best.worst) {
        costs[i] = cost
        continue
      }
    } else cost += WAITING * place
    if (decodes) {
      const beside = running + 1
      const step =
        beside > 0
          ? stepMs + stepMsPerRequest * beside + stepMsPerContextToken * (contexts + promptTokens)
          : 0
      const work = cells[at + ROW.sentWork] as number
      const stretch =
        trackPrefill && work !== 0 ? stretchOf(work, nowMs - (cells[at + ROW.sentMs] as number)) : 1
      cost += pace * (expectedOutput * step * stretch + active * sharedSteps * slower)
    }
    const free = cells[at + ROW.freeBlocks] as number
    if (free < trackedBlocks) {
      const excess = Math.max(trackedBlocks - (depths[slot] as number), 0) - free
      if (excess > 0) cost += excess * blockSize * speed * msPerToken
    }
    costs[i] = cost
    if (best !== null) best.offer(i, cost)
  }
}
