import { describe, expect, it } from 'vitest'
import { WORKLOAD_ARRIVALS } from './arrivals.ts'
import { formatMooncake, parseMooncake } from './mooncake-trace.ts'
import { parseTrace } from './trace-reader.ts'
import { createWorkload } from './workload.ts'
import { WORKLOAD_KINDS } from './workload-options.ts'

const SMALL = { kind: 'agents', requests: 3, requestsPerSecond: 1 } as const

describe('rates and options', () => {
  it.each(WORKLOAD_ARRIVALS)('%s arrivals - have the requested mean rate', (arrivals) => {
    const rates = Array.from({ length: 8 }, (_, seed) => {
      const requests = 20_000
      const options = { kind: 'random', arrivals, requests, requestsPerSecond: 10, seed } as const
      const made = createWorkload({ ...options, inputTokens: 1 })
      return requests / (made.at(-1)!.atMs / 1000)
    })
    const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length
    expect(Math.abs(mean / 10 - 1)).toBeLessThan(0.012)
  })

  it('an option without effect on the kind - is refused', () => {
    const random = { kind: 'random', requests: 3, requestsPerSecond: 1 } as const
    expect(() => createWorkload({ ...random, turns: 5 })).toThrow('turns has no effect on random')
    expect(() => createWorkload({ ...random, groups: 5 })).toThrow('groups has no effect on random')
    const chat = { ...random, kind: 'chat' } as const
    expect(() => createWorkload({ ...chat, groups: 5 })).toThrow('groups has no effect on chat')
    expect(createWorkload({ ...chat, turns: 5, thinkMs: 0 })).toHaveLength(3)
  })
})

describe('bounds', () => {
  it.each([
    ['inputTokens', 'input', 2 ** 16],
    ['outputTokens', 'output', 2 ** 16],
    ['turns', 'turns', 10_000],
    ['groups', 'groups', 1_000_000],
  ] as const)('%s - accepted up to its limit', (key, name, most) => {
    const made = createWorkload({ ...SMALL, [key]: most })
    expect(made).toHaveLength(3)
    expect(createWorkload({ ...SMALL, [key]: most - 1 })).toHaveLength(3)
    expect(() => createWorkload({ ...SMALL, [key]: most + 1 })).toThrow(
      `workload: ${name} must be at most ${most}, got ${most + 1}`,
    )
    expect(() => createWorkload({ ...SMALL, [key]: 0 })).toThrow(`${name} must be above 0`)
  })

  it('requests - a million, which are all in memory', () => {
    expect(() => createWorkload({ ...SMALL, requests: 1_000_001 })).toThrow('at most 1000000')
  })

  it('a line of a trace - a length up to 16,777,216', () => {
    const line = (input: number, output: number): string =>
      JSON.stringify({ timestamp: 0, hash_ids: [], input_length: input, output_length: output })
    const [longest] = parseMooncake([line(2 ** 24, 2 ** 24)], 1)
    expect(longest).toMatchObject({ inputTokens: 2 ** 24, outputTokens: 2 ** 24 })
    expect(longest!.hashIds).toHaveLength(2 ** 15)
  })
})

describe('createWorkload', () => {
  it.each(WORKLOAD_KINDS)(
    '%s - the same seed gives the same requests, at the requested rate, and a file preserves them',
    (kind) => {
      const options = { kind, requests: 400, requestsPerSecond: 10, seed: 3 } as const
      const requests = createWorkload(options)
      expect(requests).toHaveLength(400)
      expect(createWorkload(options)).toEqual(requests)
      expect(createWorkload({ ...options, seed: 4 })).not.toEqual(requests)
      const rate = 400 / (requests.at(-1)!.atMs / 1000)
      expect(rate).toBeGreaterThan(5)
      expect(rate).toBeLessThan(20)
      for (const { inputTokens, hashIds } of requests)
        expect(hashIds).toHaveLength(Math.ceil(inputTokens / 64))
      const read = parseTrace(formatMooncake(requests))
      expect(read.map(({ after, delayMs }) => [after, delayMs])).toEqual(
        requests.map(({ after, delayMs }) => [after, delayMs]),
      )
      expect(read.map(({ hashIds }) => hashIds)).toEqual(requests.map(({ hashIds }) => hashIds))
    },
  )

  it.each(['poisson', 'bursts', 'diurnal', 'constant'] as const)(
    '%s arrivals - never go back in time',
    (arrivals) => {
      const requests = createWorkload({
        kind: 'random',
        arrivals,
        requests: 500,
        requestsPerSecond: 5,
      })
      for (const [i, { atMs }] of requests.entries())
        expect(atMs).toBeGreaterThanOrEqual(requests[i - 1]?.atMs ?? 0)
      expect(500 / (requests.at(-1)!.atMs / 1000)).toBeGreaterThan(3)
      expect(500 / (requests.at(-1)!.atMs / 1000)).toBeLessThan(8)
    },
  )

  it('an invalid option - is refused by name', () => {
    const options = { kind: 'random', requests: 5, requestsPerSecond: 1 } as const
    expect(() => createWorkload({ ...options, requests: 0 })).toThrow('requests')
    expect(() => createWorkload({ ...options, requestsPerSecond: -1 })).toThrow('requestsPerSecond')
    expect(() => createWorkload({ ...options, kind: 'x' as 'random' })).toThrow('kind')
  })
})
