import { describe, expect, it } from 'vitest'
import { Renewals } from './renewals.ts'

describe('Renewals - which entries are valid', () => {
  it('a mark that changes - is valid for the time to live, to the millisecond', () => {
    const renewals = new Renewals(1_000, 0)
    expect(renewals.see('a', 1, 0)).toBe(true)
    renewals.look(400)
    renewals.look(800)
    expect(renewals.see('a', 1, 1_000)).toBe(true)
    expect(renewals.see('a', 1, 1_001)).toBe(false)
    expect(renewals.see('a', 0, 1_002)).toBe(true)
    expect(renewals.holds('a', 2_002)).toBe(true)
    expect(renewals.holds('a', 2_003)).toBe(false)
  })

  it('a granted time - is not shortened by an earlier renewal', () => {
    const renewals = new Renewals(1_000, 0)
    renewals.see('a', 1, 0)
    renewals.grant(4_000)
    renewals.see('a', 2, 100)
    expect(renewals.holds('a', 5_000)).toBe(true)
    expect(renewals.holds('a', 5_001)).toBe(false)
    renewals.see('a', 3, 5_100)
    expect(renewals.holds('a', 6_100)).toBe(true)
    expect(renewals.holds('a', 6_101)).toBe(false)
  })

  it('a watcher that was suspended - extends all entries by the time that it missed', () => {
    const renewals = new Renewals(1_000, 0)
    renewals.see('a', 1, 0)
    renewals.look(60_000)
    expect(renewals.see('a', 1, 60_000)).toBe(true)
    renewals.look(60_400)
    renewals.look(60_800)
    renewals.look(61_001)
    expect(renewals.see('a', 1, 61_001)).toBe(false)
  })
})
