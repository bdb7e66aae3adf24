import { describe, expect, it } from 'vitest'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { DeferredRemovals } from './deferred-removals.ts'

const HOLDERS = 5
const BLOCKS = 20_000
const low = (block: number): number => Math.imul(block + 1, 0x9e3779b1)
const high = (block: number): number => Math.imul(block + 1, 0x85ebca6b)
const blockOf = new Map(Array.from({ length: BLOCKS }, (_, block) => [low(block), block]))
const hashesOf = (blocks: readonly number[]): Uint32Array =>
  Uint32Array.from(blocks.flatMap((block) => [low(block), high(block)]))

describe('DeferredRemovals', () => {
  it.each([1, 7, 300, 3000])(
    'agree with plain sets, also while filters are replaced; %i removals between two questions',
    (between) => {
      let blocks = 100_000
      const deferred = new DeferredRemovals({ entriesOf: () => blocks })
      const plain = Array.from({ length: HOLDERS }, () => new Set<number>())
      let state = 1
      const draw = (below: number): number => {
        state = Math.imul(state, 0x2c1b3c6d) + 0x297a2d39
        return ((state ^ (state >>> 15)) >>> 0) % below
      }
      const wrong: string[] = []
      for (let step = 0; step < 60_000; step++) {
        const holder = draw(HOLDERS)
        const own = plain[holder] as Set<number>
        if (draw(4000) === 0) {
          // A pass has made the removals that it has taken; the others stay.
          const waiting = deferred.of(holder)
          const left = waiting?.words.slice(2 * waiting.taken, 2 * waiting.count) ?? []
          blocks = draw(2) * 100_000
          deferred.done(holder, 0)
          blocks = 100_000
          own.clear()
          for (let at = 0; at < left.length; at += 2) own.add(blockOf.get(left[at] ?? 0) ?? -1)
        }
        if (draw(2000) === 0) {
          const waiting = deferred.of(holder)
          if (waiting !== undefined) waiting.taken = draw(waiting.count + 1)
        }
        const block = draw(BLOCKS)
        deferred.add(holder, deferred.of(holder) ?? deferred.begin(holder), low(block), high(block))
        own.add(block)
        if (step % between !== 0) continue
        if (draw(3) === 0) {
          const stored = Array.from({ length: 20 }, () => draw(BLOCKS))
          deferred.cancel(holder, hashesOf([block, ...stored]))
          for (const each of [block, ...stored]) own.delete(each)
        }
        const asked = Array.from({ length: 8 }, () => draw(BLOCKS))
        asked.splice(draw(8), 0, block, ...[...own].slice(0, draw(4)))
        const matches = new PrefixMatches(HOLDERS)
        for (let other = 0; other < HOLDERS; other++) {
          matches.add(other)
          matches.device[other] = asked.length
        }
        deferred.shorten(hashesOf(asked), asked.length, matches)
        plain.forEach((blocks, other) => {
          const depth = asked.findIndex((each) => blocks.has(each))
          const wanted = depth < 0 ? asked.length : depth
          if (matches.device[other] !== wanted) wrong.push(`step ${step}: ${other} ${wanted}`)
          const isIn = deferred.has(other, low(block), high(block))
          if (isIn !== blocks.has(block)) wrong.push(`step ${step}: ${other} ${isIn}`)
        })
      }
      expect(wrong.slice(0, 5)).toEqual([])
      for (let holder = 0; holder < HOLDERS; holder++) deferred.delete(holder)
      expect([deferred.count, deferred.isInUse]).toEqual([0, false])
      expect(deferred.bytes).toBe(new DeferredRemovals({ entriesOf: () => 0 }).bytes)
    },
  )

  it('many blocks that are stored again and asked for - few of them are searched for in the list', () => {
    const deferred = new DeferredRemovals({ entriesOf: () => 100_000 })
    const own = deferred.begin(0)
    const removed = Array.from({ length: 10_000 }, (_, block) => block)
    for (const block of removed) deferred.add(0, own, low(block), high(block))
    const again = hashesOf(removed.slice(4000, 5000))
    expect(deferred.cancel(0, again)).toBe(true)
    expect(own.stale).toBe(1000)
    const matches = new PrefixMatches(1)
    matches.add(0)
    matches.device[0] = 1000
    deferred.shorten(again, 1000, matches)
    expect(matches.device[0]).toBe(1000)
    // 1,000 searches would have been 9 million hashes.
    expect(own.stale).toBe(0)
    expect(own.wasted).toBeLessThan(50_000)
  })

  it('a holder whose list is one of the last - keeps its removals, and not the memory of the others', () => {
    const deferred = new DeferredRemovals({ entriesOf: () => 100_000 })
    const holders = Array.from({ length: 40 }, (_, holder) => holder)
    for (const holder of holders) {
      const own = deferred.begin(holder)
      for (let block = 0; block < BLOCKS; block++)
        deferred.add(holder, own, low(block + holder), high(block + holder))
    }
    const kept = holders.at(-1) as number
    const memory = deferred.of(kept)?.words.buffer
    for (const holder of holders) if (holder !== kept) deferred.delete(holder)
    // Not `not.toBe`, which would print them.
    expect(deferred.of(kept)?.words.buffer === memory).toBe(false)
    const isIn = (block: number): boolean => deferred.has(kept, low(block), high(block))
    expect([kept - 1, kept, kept + BLOCKS - 1, kept + BLOCKS].map(isIn)).toEqual([
      false,
      true,
      true,
      false,
    ])
  })
})
