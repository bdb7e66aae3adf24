import { describe, expect, it } from 'vitest'
import { whyUnusable } from './certificate-term.ts'

const TERM = { validFrom: 'Jan  1 00:00:00 2026 GMT', validTo: 'Jan  1 00:00:00 2027 GMT' }

describe('the age of a certificate', () => {
  it.each([
    ['2025-12-31T23:59:59Z', /^it is not valid before Jan {2}1 00:00:00 2026 GMT/],
    ['2026-01-01T00:00:00Z', null],
    ['2027-01-01T00:00:00Z', null],
    ['2027-01-01T00:00:01Z', /^it expired on Jan {2}1 00:00:00 2027 GMT/],
  ])('at %s', (now, text) => {
    const why = whyUnusable(TERM, Date.parse(now))
    if (text === null) expect(why).toBe(null)
    else expect(why).toMatch(text)
  })
})
