import { expect, it } from 'vitest'
import { LinkReports } from './link-reports.ts'

it('the same cause - is reported once a minute, beside a limited number of others', () => {
  const lines: string[] = []
  let nowMs = 0
  const reports = new LinkReports(
    (line) => lines.push(line),
    () => nowMs,
  )
  for (; nowMs < 120_000; nowMs += 200) reports.tell('a wrong secret')
  expect(lines).toEqual(['a wrong secret', 'a wrong secret'])
  for (let i = 0; i < 10_000; i++) reports.tell(`cause ${i}`)
  expect(lines.length).toBeLessThan(100)
  nowMs += 60_000
  reports.tell('a wrong secret')
  expect(lines.at(-1)).toBe('a wrong secret')
})
