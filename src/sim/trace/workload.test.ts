import { describe, expect, it } from 'vitest'
import { parseMooncake } from './mooncake-trace.ts'
import { createWorkload } from './workload.ts'

const SMALL = { kind: 'chat', requests: 3, requestsPerSecond: 1 } as const

describe('bounds', () => {
  it.each([
    ['inputTokens', 'input', 2 ** 16],
    ['outputTokens', 'output', 2 ** 16],
    ['turns', 'turns', 10_000],
    ['groups', 'groups', 1_000_000],
  ] as const)('%s - accepted up to its limit', (key, name, most) => {
    const made = createWorkload({ ...SMALL, kind: 'rag', [key]: most })
    expect(made).toHaveLength(3)
    expect(createWorkload({ ...SMALL, kind: 'rag', [key]: most - 1 })).toHaveLength(3)
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
