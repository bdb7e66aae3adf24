import { describe, expect, it } from 'vitest'
import { RankBacklog, stretchOf } from './rank-backlog.ts'

function backlog(): RankBacklog {
  const made = new RankBacklog()
  made.join(0)
  return made
}

/** Sends a prompt; `stepMs`: of those that decode there. */
function send(
  load: RankBacklog,
  ms: number,
  nowMs: number,
  { isLong = false, stepMs = 0, restMs = 0, spreadMs = 0 } = {},
): boolean {
  return load.prefillSent(0, { ms, isLong, stepMs, restMs, spreadMs }, nowMs)
}

function done(load: RankBacklog, ms: number, nowMs: number, isLong = false, nextStartMs = 0): void {
  load.prefillDone(0, { ms, isLong, nextStartMs }, nowMs)
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
    done(load, 100, 60)
    expect(load.waitMs(0, 60, 0)).toBe(50)
    expect(load.waiting[0]).toBe(0)
    done(load, 50, 300)
    expect(load.waitMs(0, 300, 0)).toBe(0)
  })

  it('overdue - is expected to take as long again, and never looks idle', () => {
    const load = backlog()
    send(load, 100, 0)
    expect(load.waitMs(0, 100, 0)).toBe(10)
    expect(load.waitMs(0, 400, 0)).toBe(300)
  })

  it('the next prompt of an overdue rank - waits as well, and the rank stays overdue', () => {
    const load = backlog()
    send(load, 100, 0)
    send(load, 20, 400)
    expect(load.waitMs(0, 400, 0)).toBe(300 + 20)
    expect(load.waitMs(0, 450, 0)).toBe(350 + 20)
    done(load, 100, 500)
    expect(load.waitMs(0, 500, 0)).toBe(20)
  })

  it('longer than a step - waits with prompts that arrive during its computation', () => {
    const load = backlog()
    send(load, 100, 0, { isLong: true })
    expect(load.waiting[0]).toBe(1)
    done(load, 100, 100, true)
    expect(load.waiting[0]).toBe(0)
  })

  it('a step in progress - the next prompt is computed with the first, the one after that step waits', () => {
    const load = backlog()
    const step = { stepMs: 10, restMs: 4, spreadMs: 4 }
    expect(send(load, 30, 0, step)).toBe(false)
    expect(load.restMs(0, 10, 0)).toBe(4)
    expect([load.joinShare(0, 0), load.joinShare(0, 2)]).toEqual([1, 1])
    // 20 of its 30 ms are the fixed cost of a prefill step.
    expect(load.waitMs(0, 0, 20)).toBe(10)
    // The step in progress ends with equal probability at any time from 2 to 6.
    expect(load.joinShare(0, 5)).toBe(0.25)
    expect(load.restMs(0, 10, 5)).toBe(0)
    // Until 44: the step in progress, and a step that decodes and computes the prompt.
    expect(load.waitMs(0, 5, 20)).toBe(0.75 * (44 - 5) + 0.25 * 10)
    expect(send(load, 10, 2)).toBe(false)
    expect([load.open[0], load.waiting[0]]).toEqual([2, 0])
    expect(load.joinShare(0, 6)).toBe(0)
    expect(send(load, 10, 6)).toBe(true)
    expect([load.open[0], load.waiting[0]]).toEqual([3, 1])
    done(load, 30, 44)
    expect(load.joinShare(0, 44)).toBe(0)
  })

  it('an end of a step - shows the phase of the next ones, if it was recent', () => {
    const load = backlog()
    send(load, 30, 0)
    done(load, 30, 100)
    expect(load.restMs(0, 10, 103)).toBeCloseTo(7, 0)
    expect(load.restMs(0, 10, 118)).toBeCloseTo(2, 0)
    // Half of a step.
    expect(load.restMs(0, 10, 9109)).toBeCloseTo(5, 1)
    expect(load.restMs(0, 0, 103)).toBe(0)
  })

  it('prompts that waited - their step begins when the one before ends, with its own fixed cost', () => {
    const load = backlog()
    send(load, 30, 0)
    expect(send(load, 8, 10)).toBe(true)
    done(load, 30, 30, false, 25)
    expect(load.waitMs(0, 30, 0)).toBe(25 + 8)
  })

  it('prompts behind others - are counted over all ranks, also when a rank leaves', () => {
    const load = backlog()
    load.join(1)
    for (let i = 0; i < 3; i++) send(load, 30, 0)
    load.prefillSent(1, { ms: 5, isLong: false, stepMs: 0, restMs: 0, spreadMs: 0 }, 0)
    expect(load.behind).toBe(2)
    done(load, 30, 30)
    expect(load.behind).toBe(1)
    load.leave(0)
    expect(load.behind).toBe(0)
  })

  it('new rates - change the times of open prompts, if clearly different', () => {
    const load = backlog()
    expect(load.rescale(5, 0.1, 1000, 0)).toBe(false)
    send(load, 100, 0)
    expect(load.rescale(5, 0.11, 1000, 20)).toBe(false)
    expect(load.waitMs(0, 20, 0)).toBe(80)
    expect(load.rescale(2.5, 0.05, 1000, 20)).toBe(true)
    expect(load.waitMs(0, 20, 0)).toBe(40)
    expect(load.scale).toBe(0.5)
    // What was 100 ms when it was sent.
    done(load, 100 * load.scale, 60)
    expect(load.openMs[0]).toBe(0)
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
      send(backlog, ms, 100)
      for (const nowMs of [0, 100, 150, 2100, 60_000])
        expect(stretchAt(nowMs)).toBeCloseTo(1 / (1 - backlog.promptShare(0, nowMs)), 9)
    }
  })
})
