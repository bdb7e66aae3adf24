import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import { LooseTable } from './loose-table.ts'

describe('LooseTable', () => {
  it('small segments in which every bucket has been passed - a search for what is not there ends', () => {
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
})
