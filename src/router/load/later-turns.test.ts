import { beforeEach, describe, expect, it } from 'vitest'
import { LaterTurns } from './later-turns.ts'

const BLOCK = 16

describe('LaterTurns', () => {
  let turns: LaterTurns
  let nextHash: number

  beforeEach(() => {
    turns = new LaterTurns()
    nextHash = 1
    for (let slot = 0; slot < 20; slot++) turns.join(slot)
  })

  /** A prompt with the given blocks and one more. */
  function behind(before: readonly number[] = []): number[] {
    return [...before, nextHash++ * 2_654_435_761, nextHash++]
  }

  function send(
    blocks: readonly number[],
    { slot = 0, atMs = 0, isNamed = false, isNew = true } = {},
  ) {
    const hashes = { sequence: Uint32Array.from(blocks), local: Uint32Array.from(blocks) }
    const turn = turns.find(hashes, isNamed)
    const expected = turns.expected(turn)
    const overlapBlocks = isNew ? 0 : blocks.length / 2
    turns.sent({ slot, hashes, turn, overlapBlocks }, BLOCK, atMs)
    return { turn, expected }
  }

  /** `count` sessions, one after the other, with this many turns each. */
  function sessions(count: number, length: number, isNamed = false, fromMs = 0): number {
    let atMs = fromMs
    for (let i = 0; i < count; i++) {
      let blocks: number[] = []
      for (let turn = 0; turn < length; turn++) {
        blocks = behind(blocks)
        send(blocks, { atMs: atMs + 1000 * turn, isNamed })
      }
      atMs += 1000 * length
    }
    return atMs
  }

  it('nothing measured - further turns are expected only for requests with a session id', () => {
    expect(send(behind()).expected).toBe(0)
    expect(send(behind(), { isNamed: true }).expected).toBeGreaterThan(1)
  })

  it('sessions of five turns without an id - further turns are expected, after the first and after later ones', () => {
    const nowMs = sessions(200, 5)
    const first = behind()
    const { expected } = send(first, { atMs: nowMs })
    // Followed by another one: all first turns, three of four later ones.
    expect(expected).toBeGreaterThan(1.2)
    expect(expected).toBeLessThan(2.5)
    const later = send(behind(first), { atMs: nowMs + 1000 })
    expect(later.turn.mark).not.toBe(-1)
    expect(later.expected).toBeGreaterThan(0.9)
    expect(turns.cycleMs).toBeCloseTo(1000, 0)
    expect(turns.newTokens).toBeCloseTo(BLOCK, 0)
  })

  it('sessions that have just begun - those already continued count at once', () => {
    let begun = Array.from({ length: 100 }, () => behind())
    for (const blocks of begun) send(blocks)
    expect(send(behind(), { atMs: 400 }).expected).toBe(0)
    for (const atMs of [500, 1000]) {
      begun = begun.map((blocks) => behind(blocks))
      for (const blocks of begun) send(blocks, { atMs })
    }
    const { expected } = send(behind(), { atMs: 1100 })
    expect(expected).toBeGreaterThan(0.4)
    expect(expected).toBeLessThan(1)
  })

  it('endless sessions - at most three turns count', () => {
    sessions(2, 400)
    expect(send(behind(), { atMs: 900_000, isNamed: true }).expected).toBeLessThan(3.001)
  })

  it('session ids used once each - no further turns are expected', () => {
    const nowMs = sessions(300, 1, true)
    expect(send(behind(), { atMs: nowMs, isNamed: true }).expected).toBeLessThan(0.1)
  })

  it('a common prefix at which prompts end - is not a turn of a session', () => {
    const prefix = behind()
    send(prefix)
    for (let i = 1; i < 10; i++) send(prefix, { atMs: 10 * i, isNew: false })
    expect(send(behind(prefix), { atMs: 100 }).turn.mark).toBe(-1)
  })

  it('a session that moves - is bound to the rank of its newest turn', () => {
    const first = behind()
    send(first, { slot: 3, isNamed: true })
    const before = turns.bound[3]!
    expect(before).toBeGreaterThan(0.5)
    const second = behind(first)
    const turn = turns.find({ sequence: Uint32Array.from(second) }, true)
    expect(turns.slotOf(turn)).toBe(3)
    expect(turns.weightOf(turn)).toBe(before)
    send(second, { slot: 5, atMs: 1000, isNamed: true })
    expect(turns.bound[3]).toBe(0)
    expect(turns.bound[5]).toBeGreaterThan(0.5)
  })

  it('a session that is silent for long - is not bound', () => {
    send(behind(), { slot: 2, isNamed: true })
    send(behind(), { slot: 4, atMs: 60_000 })
    expect(turns.bound[2]).toBe(0)
  })

  it('a rank that leaves - its slot starts fresh, and late turns of its sessions do not affect it', () => {
    const first = behind()
    send(first, { slot: 19, isNamed: true })
    turns.leave(19)
    turns.join(19)
    send(behind(), { slot: 19, isNamed: true })
    const bound = turns.bound[19]!
    send(behind(first), { slot: 1, atMs: 10, isNamed: true })
    expect(turns.bound[19]).toBe(bound)
  })

  it('more sessions than marks - the oldest are dropped', () => {
    const first = behind()
    send(first, { isNamed: true })
    for (let i = 0; i < 20_000; i++) send(behind(), { slot: 1, isNamed: true })
    expect(turns.bound[0]).toBe(0)
    expect(turns.bound[1]).toBeLessThan(16_385)
    expect(send(behind(first)).turn.mark).toBe(-1)
  })
})
