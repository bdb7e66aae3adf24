import { describe, expect, it } from 'vitest'
import { hashBlocks } from '../../kv/index.ts'
import { parseTrace } from './trace-reader.ts'
import { idealReuse, promptTokens } from './trace-request.ts'
import { sharedPrefixWorkload } from './shared-prefix-workload.ts'

const line = (timestamp: number, input: number, output: number, ids: number[]): string =>
  JSON.stringify({ timestamp, input_length: input, output_length: output, hash_ids: ids })

const TEXT = [line(0, 600, 5, [0, 1]), line(0, 700, 6, [0, 2]), '', line(3000, 512, 7, [0])].join(
  '\n',
)

describe('parseTrace', () => {
  it('reads every line and skips empty ones', () => {
    const trace = parseTrace(TEXT)
    expect(trace).toHaveLength(3)
    expect(trace[1]).toEqual({ atMs: 0, inputTokens: 700, outputTokens: 6, hashIds: [0, 2] })
  })

  it('limits, speeds up and spreads bursts', () => {
    const trace = parseTrace(TEXT, { spread: true, arrivalSpeedup: 2 })
    expect(trace.map((request) => request.atMs)).toEqual([0, 750, 1500])
    expect(parseTrace(TEXT, { limit: 2 })).toHaveLength(2)
  })

  it('times that go backwards - are those of the requests, in any order of lines', () => {
    const text = [3e12, 3e12 - 500, 3e12 - 100].map((ms) => line(ms, 1, 1, [0])).join('\n')
    expect(parseTrace(text).map(({ atMs }) => atMs)).toEqual([500, 0, 400])
  })

  it.each([
    ['{', 'line 1 of the trace is not JSON'],
    ['null', 'names no columns'],
    [line(-1, 1, 1, [0]), 'timestamp'],
    [line(0, 0, 1, [0]), 'input_length'],
    [line(0, 1, 1.5, [0]), 'output_length'],
    [`${line(0, 1, 1, [0])}\n{"timestamp":1}`, 'line 2'],
    [`${line(0, 1, 1, [0])}\n${line(1e300, 1, 1, [0])}`, 'line 2 of the trace has a timestamp'],
    ['ms,input,output\n0,1,1\n1e300,1,1', 'line 3 of the trace has a time that is later'],
    [`${line(1, 1, 1, [0])}\n${line(4e12, 1, 1, [0])}`, 'request 2 of the trace comes more than'],
  ])('refuses %s', (text, word) => {
    expect(() => parseTrace(text)).toThrow(word)
  })
})

describe('promptTokens', () => {
  it('gives equal ids equal tokens and different ids different ones', () => {
    const [a, b] = parseTrace(TEXT)
    const hashes = [a!, b!].map((request) => hashBlocks(promptTokens(request), 64).sequence)
    expect(hashes[0]!.subarray(0, 16)).toEqual(hashes[1]!.subarray(0, 16))
    expect(hashes[0]!.subarray(16, 18)).not.toEqual(hashes[1]!.subarray(16, 18))
  })

  it('has the reuse of an unlimited cache', () => {
    expect(idealReuse(parseTrace(TEXT))).toBe(2 / 5)
    expect(idealReuse([])).toBe(0)
  })
})

describe('sharedPrefixWorkload', () => {
  it('is the same for the same seed and arrives at the requested rate', () => {
    const options = {
      requests: 400,
      groups: 4,
      prefixBlocks: 3,
      questionTokens: 100,
      outputTokens: 10,
      requestsPerSecond: 20,
      seed: 3,
    }
    const trace = sharedPrefixWorkload(options)
    expect(sharedPrefixWorkload(options)).toEqual(trace)
    expect(trace.at(-1)!.atMs).toBeGreaterThan(15_000)
    expect(trace.at(-1)!.atMs).toBeLessThan(25_000)
    expect(new Set(trace.map((request) => request.hashIds[0])).size).toBe(4)
  })
})
