import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import { HolderNames } from './holder-names.ts'

const HOLDERS = 3
const TIERS = [1, 2, 4]
const DEVICE = 1

const words = (count: number, seed: number): Uint32Array => {
  const random = seededRandom(seed)
  return Uint32Array.from({ length: 2 * count }, () => Math.floor(random.next() * 2 ** 32))
}

/** Names by holder, as a `Map` from the name to Baton's hash and the tiers. */
type Plain = Map<string, { own: string; tiers: number }>[]

const textOf = (hashes: Uint32Array, i: number): string =>
  `${hashes[2 * i] as number}:${hashes[2 * i + 1] as number}`

function addTo(plain: Plain, holder: number, names: Uint32Array, own: Uint32Array, tier: number) {
  for (let i = 0; i < names.length >> 1; i++) {
    const [name, hash] = [textOf(names, i), textOf(own, i)]
    if (name === hash) continue
    const before = plain[holder]?.get(name)
    const tiers = before?.own === hash ? before.tiers | tier : tier
    plain[holder]?.set(name, { own: hash, tiers })
  }
}

function takeFrom(plain: Plain, holder: number, hashes: Uint32Array, tier: number): string[] {
  return Array.from({ length: hashes.length >> 1 }, (_, i) => {
    const name = textOf(hashes, i)
    const known = plain[holder]?.get(name)
    if (known === undefined) return name
    known.tiers &= ~tier
    if (known.tiers === 0) plain[holder]?.delete(name)
    return known.own
  })
}

const listOf = (hashes: Uint32Array): string[] =>
  Array.from({ length: hashes.length >> 1 }, (_, i) => textOf(hashes, i))

function expectSame(names: HolderNames, plain: Plain, all: Uint32Array): void {
  expect(names.count).toBe(plain.filter(({ size }) => size > 0).length)
  for (let holder = 0; holder < HOLDERS; holder++) {
    const table = names.of(holder)
    expect(table?.count ?? 0).toBe(plain[holder]?.size)
    const wrong = listOf(all).filter((name, i) => {
      const isKnown = table?.find(all[2 * i] as number, all[2 * i + 1] as number) === true
      const own = isKnown ? `${table.low}:${table.high}` : undefined
      return own !== plain[holder]?.get(name)?.own
    })
    expect(wrong).toEqual([])
  }
}

const step = fc.record({
  kind: fc.constantFrom('add', 'add', 'add', 'take', 'take', 'each', 'delete'),
  holder: fc.nat(HOLDERS - 1),
  tier: fc.constantFrom(...TIERS),
  // Often the same ones, so that steps meet.
  from: fc.oneof(fc.constantFrom(90, 1000), fc.nat(6000)),
  length: fc.oneof(fc.nat(70), fc.constantFrom(500, 4000)),
  /** Names from here on have another translation. */
  shift: fc.constantFrom(0, 0, 1),
})

describe('HolderNames', () => {
  it('HolderNames - agrees with maps after any adds, changes of tiers and removals', () => {
    const all = words(10_000, 1)
    const own = words(10_001, 2)
    // Some of Baton's own, which are not names; and some whose halves are small numbers.
    own.set(all.subarray(0, 100))
    for (let i = 200; i < 2000; i++) all.set([i, i & 1], 2 * i)
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }), (steps) => {
        const names = new HolderNames()
        const plain: Plain = Array.from({ length: HOLDERS }, () => new Map())
        for (const { kind, holder, tier, from, length, shift } of steps) {
          const some = all.slice(2 * from, 2 * (from + length))
          const count = some.length >> 1
          if (kind === 'add') {
            const hashes = own.subarray(2 * (from + shift), 2 * (from + shift) + some.length)
            names.add(holder, some, hashes, tier)
            addTo(plain, holder, some, hashes, tier)
          } else if (kind === 'take') {
            const expected = takeFrom(plain, holder, some, tier)
            names.take(holder, some, 0, count, tier)
            expect(listOf(some)).toEqual(expected)
          } else if (kind === 'each') {
            const part = some.subarray(0, 64)
            const holders = Int32Array.from({ length: 32 }, (_, i) => (holder + i) % HOLDERS)
            const expected = listOf(part).map((_, i) => {
              const hash = part.slice(2 * i, 2 * i + 2)
              return takeFrom(plain, holders[i] as number, hash, tier)[0]
            })
            names.takeEach(holders, part, 0, part.length >> 1, tier)
            expect(listOf(part)).toEqual(expected)
          } else {
            names.delete(holder)
            plain[holder]?.clear()
          }
        }
        expectSame(names, plain, all)
        for (let holder = 0; holder < HOLDERS; holder++) {
          for (const tier of TIERS) names.take(holder, all.slice(), 0, all.length >> 1, tier)
        }
        expect([names.count, names.bytes]).toEqual([0, 0])
      }),
      { numRuns: 15 },
    )
  })

  it('HolderNames - a name with another translation is used only by the tier that stored it', () => {
    const names = new HolderNames()
    const [name, own] = [words(1, 7), words(2, 8)]
    const [first, second] = [own.subarray(0, 2), own.subarray(2)]
    names.add(0, name, first, 1)
    names.add(0, name, second, 2)
    const removed = name.slice()
    names.take(0, removed, 0, 1, 2)
    expect([removed, names.count]).toEqual([second, 0])
  })

  it('HolderNames - at most 33 bytes per name at any size; memory goes when names go', () => {
    const blocks = 100_000
    const [all, own] = [words(blocks, 3), words(blocks, 4)]
    const names = new HolderNames()
    const wasteful: number[][] = []
    for (let i = 0; i < blocks; i += 100) {
      const range = [2 * i, 2 * i + 200] as const
      names.add(0, all.subarray(...range), own.subarray(...range), DEVICE)
      const each = names.bytes / (i + 100)
      if (i >= 3000 && each > 33) wasteful.push([i, each])
    }
    for (let i = 0; i < blocks; i += 100) {
      names.take(0, all.slice(), i, i + 100, DEVICE)
      const left = blocks - i - 100
      const each = names.bytes / left
      if (left >= 3000 && each > 80) wasteful.push([i, each])
    }
    expect(wasteful).toEqual([])
    expect(names.bytes).toBe(0)
  })

  it('HolderNames - marks of removed names take no memory, however many there were', () => {
    for (const live of [10, 2000]) {
      const blocks = 60_000
      const [all, own] = [words(blocks, 5), words(blocks, 6)]
      const names = new HolderNames()
      let most = 0
      for (let i = 0; i < blocks; i++) {
        names.add(0, all.subarray(2 * i, 2 * i + 2), own.subarray(2 * i, 2 * i + 2), DEVICE)
        if (i >= live) names.take(0, all, i - live, i - live + 1, DEVICE)
        most = Math.max(most, names.bytes)
      }
      expect(names.of(0)?.count).toBe(live)
      // Parts that have just been created are larger than ten names need.
      expect(most).toBeLessThan(64 * (16 * 48 + 192) + 1600 + 45 * live)
      // A name that nobody has: the search for it ends.
      expect(names.of(0)?.find(1, 2)).toBe(false)
    }
  })

  it('tables that move when few names are left - those left are found', () => {
    // Enough for parts that are in slabs.
    const count = 60_000
    const [all, own] = [words(count, 3), words(count, 4)]
    const names = new HolderNames()
    const plain: Plain = Array.from({ length: HOLDERS }, () => new Map())
    for (let holder = 0; holder < HOLDERS; holder++) {
      names.add(holder, all, own, DEVICE)
      addTo(plain, holder, all, own, DEVICE)
    }
    const full = names.bytes
    for (let holder = 0; holder < HOLDERS; holder++) {
      for (let i = 0; i < count; i++) {
        if (i % 50 === holder) continue
        const hash = all.slice(2 * i, 2 * i + 2)
        takeFrom(plain, holder, hash, DEVICE)
        names.take(holder, hash, 0, 1, DEVICE)
      }
    }
    expectSame(names, plain, all)
    expect(names.bytes).toBeLessThan(full / 10)
    names.delete(1)
    plain[1]?.clear()
    names.add(2, own, all, DEVICE)
    addTo(plain, 2, own, all, DEVICE)
    expectSame(names, plain, all)
    expectSame(names, plain, own)
  })
})
