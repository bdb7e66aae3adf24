import { describe, expect, it } from 'vitest'
import { RankBacklog } from './rank-backlog.ts'

function backlog(): RankBacklog {
  const made = new RankBacklog()
  made.join(0)
  return made
}

describe('RankBacklog', () => {
  it('prompts behind each other - a wait that grows with each and decays with time', () => {
    const load = backlog()
    expect(load.waitMs(0, 0)).toBe(0)
    load.prefillSent(0, 100, false, 0)
    load.prefillSent(0, 50, false, 10)
    expect(load.waitMs(0, 10)).toBe(140)
    expect(load.waitMs(0, 60)).toBe(90)
    expect(load.waiting[0]).toBe(1)
  })

  it('one ends early or late - the others are expected to take their own time from then on', () => {
    const load = backlog()
    load.prefillSent(0, 100, false, 0)
    load.prefillSent(0, 50, false, 0)
    load.prefillDone(0, 100, false, 60)
    expect(load.waitMs(0, 60)).toBe(50)
    expect(load.waiting[0]).toBe(0)
    load.prefillDone(0, 50, false, 300)
    expect(load.waitMs(0, 300)).toBe(0)
  })

  it('late - takes as long again, and never looks idle', () => {
    const load = backlog()
    load.prefillSent(0, 100, false, 0)
    expect(load.waitMs(0, 100)).toBe(10)
    expect(load.waitMs(0, 400)).toBe(300)
  })

  it('longer than a step - waits with those that come while it is computed', () => {
    const load = backlog()
    load.prefillSent(0, 100, true, 0)
    expect(load.waiting[0]).toBe(1)
    load.prefillDone(0, 100, true, 100)
    expect(load.waiting[0]).toBe(0)
  })

  it('others - what a rank reports beyond our own, until that has passed', () => {
    const load = backlog()
    load.others(0, 3, 80, 1000)
    expect(load.waitMs(0, 1030)).toBe(50)
    expect(load.waitMs(0, 1100)).toBe(0)
    expect(load.runningOn(0)).toBe(3)
  })

  it('integrals - requests and contexts over time; a rank that joins again begins anew', () => {
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
})
