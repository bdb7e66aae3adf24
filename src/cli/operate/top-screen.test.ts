import { describe, expect, it } from 'vitest'
import { aFleet, aWorker } from '../../../test/fixtures/fleet-view.ts'
import { topScreen } from './top-screen.ts'

const plain = { columns: 100, rows: 40, hasColor: false }

describe('topScreen', () => {
  it('a fleet - rates between two refreshes, and a line per worker', () => {
    const before = aFleet({ epochMs: 1000 })
    const { sums } = before
    const now = aFleet({ epochMs: 3000, sums: { ...sums, received: 20, completionTokens: 500 } })
    const lines = topScreen('http://x', now, before, plain)
    expect(lines[1]).toContain('req/s 10.0  tokens/s 250.0')
    expect(lines.find((line) => line.includes('…2345678'))).toMatch(
      /prefill +serving +2 +1 +25 % +7 +sim +127\.0\.0\.1:5000/,
    )
  })

  it.each([10, 20, 44, 80, 200])('%i columns - no line is longer', (columns) => {
    const lines = topScreen('http://a-long-name.example:8000', aFleet(), null, {
      ...plain,
      columns,
    })
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns)
  })

  it.each([
    [24, ['WORKER', 'RUN', 'KV']],
    [34, ['WORKER', 'STATE', 'RUN', 'KV']],
    [44, ['WORKER', 'ROLE', 'STATE', 'RUN', 'QUEUE', 'KV']],
    [70, ['WORKER', 'ROLE', 'STATE', 'RUN', 'QUEUE', 'KV', 'PROMPTS', 'ADDRESS']],
    [200, ['WORKER', 'ROLE', 'STATE', 'RUN', 'QUEUE', 'KV', 'PROMPTS', 'ENGINE', 'ADDRESS']],
  ])(
    '%i columns - only whole columns of the table, the most important first',
    (columns, titles) => {
      const lines = topScreen('x', aFleet(), null, { ...plain, columns })
      const table = lines.slice(lines.findIndex((line) => line.startsWith('WORKER')))
      expect(table[0]?.split(/ +/)).toEqual(titles)
      expect(table.join('')).not.toContain('…  ')
      for (const fact of ['in flight', 'req/s', 'tokens/s', 'reused', 'failed', 'migrated']) {
        expect(
          lines.filter((line) => line.includes(`${fact} `) && !line.includes('…')),
        ).toHaveLength(1)
      }
    },
  )

  it.each([1, 3, 6])('%i rows - no more lines', (rows) => {
    expect(topScreen('x', aFleet(), null, { ...plain, rows })).toHaveLength(rows)
  })

  it('colours - only when they are enabled', () => {
    const text = (hasColor: boolean) =>
      topScreen('x', aFleet(), null, { ...plain, hasColor }).join()
    expect([text(true).includes('\u001B['), text(false).includes('\u001B[')]).toEqual([true, false])
  })

  it('a name that contains control characters - does not move the cursor', () => {
    const evil = aWorker({
      engine: 'x\u001B[2J\u0007\u202E',
      state: 'unreachable',
      reason: '\r\n\u009B1m',
    })
    const fleet = aFleet()
    const [model] = fleet.models
    const lines = topScreen(
      'x',
      { ...fleet, models: [{ ...model!, workers: [evil] }] },
      null,
      plain,
    )
    // oxlint-disable-next-line no-control-regex -- the test checks that control characters are absent
    expect(lines.join('')).not.toMatch(/[\u0000-\u001F\u007F-\u009F\u202E]/)
  })
})
