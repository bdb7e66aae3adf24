import fc from 'fast-check'
import { expect, it } from 'vitest'
import { AnchorTable } from './anchor-table.ts'
import { BlockArena } from './block-arena.ts'

it('AnchorTable - agrees with a Map while it grows, moves and shrinks', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.boolean(), fc.nat(2000), fc.nat(400)), { maxLength: 60 }),
      (changes) => {
        const arena = new BlockArena(4096)
        // Few distinct words, so that many hashes share one half.
        for (let i = 0; i < 8192; i++)
          arena.hashes[i] = (i >> 1) % 97 === 0 ? 7 : Math.imul(i, 0x9e3779b1)
        for (let i = 0; i < 4096; i++) arena.hashes[2 * i] = i
        const table = new AnchorTable(arena)
        const plain = new Set<number>()
        for (const [isAdded, from, length] of changes) {
          if (!isAdded) table.dropRange(from, from + length)
          for (let at = from; at < from + length; at++) {
            if (isAdded) table.add(at)
            if (isAdded) plain.add(at)
            else plain.delete(at)
          }
          expect(table.count).toBe(plain.size)
          for (let at = 0; at < 2400; at += 11) {
            const found = table.lookup(arena.words[2 * at] ?? 0, arena.words[2 * at + 1] ?? 0)
            expect(found).toBe(plain.has(at) ? at : -1)
          }
        }
        for (const at of plain) table.drop(at)
        expect(table.count).toBe(0)
      },
    ),
    { numRuns: 50 },
  )
})

it('AnchorTable - many inserts into a table that has just been shrunk fit', () => {
  const blocks = 1 << 17
  const arena = new BlockArena(blocks)
  for (let i = 0; i < 2 * blocks; i++) arena.hashes[i] = Math.imul(i + 1, 0x9e3779b1)
  const table = new AnchorTable(arena)
  const full = blocks / 2
  for (let at = 0; at < full; at++) table.add(at)
  table.dropRange(0, full - 1)
  // The table is still being moved to one half as large; further removals turn the large empty table into a very
  // small one.
  for (const { bytes } = table; table.bytes >= bytes;) {
    table.add(0)
    table.drop(0)
  }
  expect(table.count).toBe(1)
  for (let at = 0; at < full; at++) table.add(at)
  expect(table.count).toBe(full)
  for (let at = 0; at < full; at += 7) {
    const found = table.lookup(arena.words[2 * at] ?? 0, arena.words[2 * at + 1] ?? 0)
    expect(found).toBe(at)
  }
})

it('AnchorTable - emptied at once, it keeps no memory', () => {
  const blocks = 1 << 17
  const arena = new BlockArena(blocks)
  for (let i = 0; i < 2 * blocks; i++) arena.hashes[i] = Math.imul(i + 1, 0x9e3779b1)
  const table = new AnchorTable(arena)
  const { bytes } = table
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < blocks; at++) table.add(at)
    expect(table.bytes).toBeGreaterThan(4 * blocks)
    table.dropRange(0, blocks)
    expect([table.count, table.bytes]).toEqual([0, bytes])
  }
})

it('AnchorTable - an anchor that was removed and added many times fits into a small table', () => {
  const blocks = 1 << 15
  const arena = new BlockArena(blocks)
  for (let i = 0; i < 2 * blocks; i++) arena.hashes[i] = Math.imul(i + 1, 0x9e3779b1)
  const table = new AnchorTable(arena)
  for (let at = 0; at < blocks; at++) table.add(at)
  for (let round = 0; round < 20_000; round++) {
    table.dropRange(0, 1)
    table.add(0)
  }
  table.dropRange(1, blocks)
  // Each change moves some slots to the small table.
  for (let round = 0; table.bytes > 1024 && round < blocks; round++) {
    table.add(1)
    table.dropRange(1, 2)
  }
  expect([table.count, table.bytes]).toEqual([1, 1024])
  expect(table.lookup(arena.words[0] ?? 0, arena.words[1] ?? 0)).toBe(0)
  expect(table.lookup(arena.words[2] ?? 0, arena.words[3] ?? 0)).toBe(-1)
})
