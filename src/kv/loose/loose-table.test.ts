import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import { LooseTable } from './loose-table.ts'

describe('LooseTable', () => {
  it('small segments with overflow counts in every bucket - the search for an absent block ends', () => {
    const random = seededRandom(5)
    const half = (): number => Math.floor(random.next() * 2 ** 32) | 0
    for (const live of [60, 300, 900, 1050, 1200]) {
      const table = new LooseTable()
      const names: [number, number][] = []
      let found = 0
      for (let step = 0; step < 20_000; step++) {
        const name: [number, number] = [half(), half()]
        names.push(name)
        table.add(...name, 1)
        const oldest = names.length > live ? names.shift() : undefined
        if (oldest !== undefined && table.lookup(...oldest)) {
          found += 1
          table.delete()
        }
        if (table.lookup(half(), half())) throw new Error('a hash that nobody added')
      }
      expect([found, table.count]).toEqual([20_000 - live, live])
    }
  })
  it('segments that split and merge - every block is found and can be removed', () => {
    const random = seededRandom(6)
    const half = (): number => Math.floor(random.next() * 2 ** 32) | 0
    const table = new LooseTable()
    const names = Array.from({ length: 100_000 }, (): [number, number] => [half(), half()])
    for (const [i, name] of names.entries()) table.add(...name, i + 1)
    const wrong = names.filter((name, i) => !table.lookup(...name) || table.word !== i + 1)
    expect(wrong).toEqual([])
    const full = table.bytes
    for (const name of names) if (table.lookup(...name)) table.delete()
    expect(table.count).toBe(0)
    expect(table.bytes).toBeLessThan(full / 10)
  })

  it('segments that move when few are left - every block left is found', () => {
    const random = seededRandom(8)
    const half = (): number => Math.floor(random.next() * 2 ** 32) | 0
    const table = new LooseTable()
    const names = Array.from({ length: 300_000 }, (): [number, number] => [half(), half()])
    for (const [i, name] of names.entries()) table.add(...name, i + 1)
    const isLeft = (name: [number, number], i: number): boolean =>
      table.lookup(...name) && table.word === i + 1
    for (const part of [2, 3, 5, 7]) {
      for (const [i, name] of names.entries()) {
        if (i % part === 1 && table.lookup(...name)) table.delete()
      }
      const left = names.filter((name, i) => isLeft(name, i)).length
      expect(left).toBe(table.count)
      expect(left).toBe(
        names.filter((_, i) => [2, 3, 5, 7].every((p) => p > part || i % p !== 1)).length,
      )
    }
    for (const [i, name] of names.entries()) {
      if (i % 1000 !== 0 && table.lookup(...name)) table.delete()
    }
    expect(names.filter((name, i) => i % 1000 === 0 && isLeft(name, i)).length).toBe(table.count)
    for (const name of names) table.add(...name, 1_000_000)
    expect(table.count).toBeGreaterThan(300_000)
  })

  it('deleteNear - removes a block only if its word matches', () => {
    const table = new LooseTable()
    for (let i = 1; i <= 1000; i++) table.add(i, -i, 16 * i + (i & 3))
    expect(table.deleteNear(3, -3, 16 * 4, ~15)).toBe(0)
    expect(table.deleteNear(3, -4, 16 * 3, ~15)).toBe(0)
    expect(table.count).toBe(1000)
    expect(table.lookup(3, -3)).toBe(true)
    expect(table.deleteNear(3, -3, 16 * 3, ~15)).toBe(16 * 3 + 3)
    expect(table.lookup(3, -3)).toBe(false)
    expect(table.deleteNear(3, -3, 16 * 3, ~15)).toBe(0)
    expect(table.count).toBe(999)
  })
})
