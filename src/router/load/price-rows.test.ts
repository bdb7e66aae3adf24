import { describe, expect, it } from 'vitest'
import { card } from '../../../test/router/scripted-plane.ts'
import { PriceRows, ROW, ROW_SIZE } from './price-rows.ts'
import { RankBacklog } from './rank-backlog.ts'
import { RankRates } from './rank-rates.ts'
import { RankTable } from '../ranks/rank-table.ts'

describe('PriceRows', () => {
  it('rates of an idle rank fade - its row is updated', () => {
    const [table, rates, backlog] = [new RankTable(), new RankRates(), new RankBacklog()]
    const rows = new PriceRows(table, rates, backlog)
    for (const slot of [0, 1]) {
      table.join(card(slot + 1))
      rates.join(slot)
      backlog.join(slot)
      rows.write(slot)
    }
    const work = (slot: number, times: number, ms: number): void => {
      for (let i = 0; i < times; i++) rates.firstToken(slot, 1000, ms)
      rows.write(slot)
    }
    work(0, 10, 100)
    work(1, 10, 400)
    const factor = (): number | undefined => rows.cells[ROW_SIZE + ROW.prefillFactor]
    const before = factor()
    work(0, 100, 100)
    rows.refresh()
    expect(factor()).toBe(rates.prefillFactor[1])
    expect(factor()).not.toBe(before)
  })

  it('growth beyond the initial capacity - every row is kept', () => {
    const [table, rates, backlog] = [new RankTable(), new RankRates(), new RankBacklog()]
    const rows = new PriceRows(table, rates, backlog)
    for (let slot = 0; slot < 40; slot++) {
      table.join(card(slot + 1, 'agg', { engine: { maxNumSeqs: slot + 1 } }))
      rates.join(slot)
      backlog.join(slot)
      rows.write(slot)
    }
    for (let slot = 0; slot < 40; slot++) {
      expect(rows.cells[ROW_SIZE * slot + ROW.places]).toBe(slot + 1)
    }
  })
})
