import { describe, expect, it } from 'vitest'
import { parseTraceparent, TraceContexts } from './trace-context.ts'

const TRACE = 'a1'.repeat(16)
const PARENT = 'b2'.repeat(8)
const share = (ratio: number): number => {
  const contexts = new TraceContexts(ratio)
  const all = Array.from({ length: 2000 }, () => parseTraceparent(contexts.begin(undefined)))
  return all.filter(({ isSampled }) => isSampled).length / all.length
}

describe('TraceContexts', () => {
  it('without a parent - a new, well-formed trace with a unique id', () => {
    const contexts = new TraceContexts(1)
    const all = Array.from({ length: 2000 }, () => contexts.begin(undefined))
    for (const one of all) expect(one).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
    expect(new Set(all.map((one) => parseTraceparent(one).traceId)).size).toBe(all.length)
  })

  it.each(['00', '01', '02', '03'])('a parent with flags %s - its trace, a new span', (flags) => {
    for (const ratio of [0, 1]) {
      const own = parseTraceparent(new TraceContexts(ratio).begin(`00-${TRACE}-${PARENT}-${flags}`))
      expect(own.traceId).toBe(TRACE)
      expect(own.spanId).not.toBe(PARENT)
      expect(own.isSampled).toBe(flags === '01' || flags === '03')
    }
  })

  it('the ratio - none, about half, all', () => {
    expect(share(0)).toBe(0)
    expect(share(1)).toBe(1)
    expect(Math.abs(share(0.5) - 0.5)).toBeLessThan(0.1)
  })
})
