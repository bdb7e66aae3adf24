import { describe, expect, it } from 'vitest'
import { RankBacklog, stretchOf } from './rank-backlog.ts'

function backlog(): RankBacklog {
  const made = new RankBacklog()
  made.join(0)
  return made
}

/** Sends a prompt; `stepMs`: of those that decode there. */
function send(load: RankBacklog, ms: number, nowMs: number, { isLong = false, stepMs = 0 } = {}) {
  load.prefillSent(0, { ms, isLong, stepMs }, nowMs)
}

describe('RankBacklog', () => {
  it('several prompts - a wait that grows with each and decays with time', () => {
    const load = backlog()
    expect(load.waitMs(0, 0, 0)).toBe(0)
    send(load, 100, 0)
    send(load, 50, 10)
    expect(load.waitMs(0, 10, 0)).toBe(140)
    expect(load.waitMs(0, 60, 0)).toBe(90)
    expect(load.waiting[0]).toBe(1)
  })

  it('one ends early or late - the others are expected to take their own time from then on', () => {
    const load = backlog()
    send(load, 100, 0)
    send(load, 50, 0)
    load.prefillDone(0, 100, false, 60)
    expect(load.waitMs(0, 60, 0)).toBe(50)
    expect(load.waiting[0]).toBe(0)
    load.prefillDone(0, 50, false, 300)
    expect(load.waitMs(0, 300, 0)).toBe(0)
  })

  it('overdue - is expected to take as long again, and never looks idle', () => {
    const load = backlog()
    send(load, 100, 0)
    expect(load.waitMs(0, 100, 0)).toBe(10)
    expect(load.waitMs(0, 400, 0)).toBe(300)
  })

  it('longer than a step - waits with prompts that arrive during its computation', () => {
    const load = backlog()
    send(load, 100, 0, { isLong: true })
    expect(load.waiting[0]).toBe(1)
    load.prefillDone(0, 100, true, 100)
    expect(load.waiting[0]).toBe(0)
  })

  it('a step in progress - the next prompt is computed with the first, the one after that step waits', () => {
    const load = backlog()
    send(load, 30, 0, { stepMs: 10 })
    expect(load.joinShare(0, 0)).toBe(1)
    // 20 of its 30 ms are the fixed cost of a prefill step.
    expect(load.waitMs(0, 0, 20)).toBe(10)
    expect(load.joinShare(0, 5)).toBe(0.5)
    expect(load.waitMs(0, 5, 20)).toBe(0.5 * 25 + 0.5 * 10)
    send(load, 10, 2)
    expect([load.open[0], load.waiting[0]]).toEqual([2, 0])
    expect(load.joinShare(0, 12)).toBe(0)
    send(load, 10, 12)
    expect([load.open[0], load.waiting[0]]).toEqual([3, 1])
    load.prefillDone(0, 30, false, 40)
    expect(load.joinShare(0, 40)).toBe(0)
  })

  it('nothing decodes - a prompt begins at once, and none joins it', () => {
    const load = backlog()
    send(load, 30, 0)
    expect(load.joinShare(0, 0)).toBe(0)
  })

  it('prefill share - recent time spent on prefill, decaying, and never all of the time', () => {
    const load = backlog()
    expect(load.promptShare(0, 0)).toBe(0)
    send(load, 200, 0)
    send(load, 200, 0)
    expect(load.promptShare(0, 0)).toBeCloseTo(0.2, 9)
    expect(load.promptShare(0, 2000)).toBeCloseTo(0.08, 9)
    expect(load.promptShare(0, 60_000)).toBeLessThan(0.001)
    for (let i = 0; i < 20; i++) send(load, 1000, 60_000)
    expect(load.promptShare(0, 60_000)).toBe(0.8)
    load.join(0)
    expect(load.promptShare(0, 60_000)).toBe(0)
  })

  it('other routers - load that a rank reports beyond our own, until it has passed', () => {
    const load = backlog()
    load.others(0, 3, 80, 1000)
    expect(load.waitMs(0, 1030, 0)).toBe(50)
    expect(load.waitMs(0, 1100, 0)).toBe(0)
    expect(load.runningOn(0)).toBe(3)
  })

  it('integrals - requests and contexts over time; a rank that joins again starts from zero', () => {
    const load = backlog()
    load.add(0, 100, 0)
    load.add(0, 300, 10)
    load.free(0, 100, 30)
    expect(load.at(0, 40)).toEqual({
      requestMs: 10 + 40 + 10,
      contextMs: 1000 + 8000 + 3000,
      prefilledMs: 0,
    })
    load.free(0, 300, 40)
    expect(load.contextTokens[0]).toBe(0)
    load.join(0)
    expect(load.at(0, 0).requestMs).toBe(0)
  })

  it('stretch of decode - is 1 / (1 − prefill share), at any age and load', () => {
    const backlog = new RankBacklog()
    backlog.join(0)
    const stretchAt = (nowMs: number): number =>
      stretchOf(backlog.sentWork[0] ?? 0, nowMs - (backlog.sentMs[0] ?? 0))
    expect(stretchAt(5)).toBe(1)
    for (const ms of [1, 300, 900, 5000]) {
      backlog.prefillSent(0, { ms, isLong: false, stepMs: 0 }, 100)
      for (const nowMs of [0, 100, 150, 2100, 60_000])
        expect(stretchAt(nowMs)).toBeCloseTo(1 / (1 - backlog.promptShare(0, nowMs)), 9)
    }
  })
})
