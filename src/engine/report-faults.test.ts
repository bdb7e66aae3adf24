import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../kv/index.ts'
import { kvEventFault, loadReportFault, ownReport, rankFault } from './report-faults.ts'

const none = new Uint32Array(0)
const stored = (hashes: readonly number[], localHashes: Uint32Array = none): KvEvent => ({
  kind: 'stored',
  parent: null,
  hashes: Uint32Array.from(hashes),
  localHashes,
  tier: 'device',
})

describe('kvEventFault - a stored event', () => {
  it('with blocks that differ in only one half - is valid', () => {
    expect(kvEventFault(stored([1, 2]))).toBeNull()
    expect(kvEventFault(stored([1, 2, 1, 3, 4, 2]))).toBeNull()
    expect(kvEventFault(stored([1, 23, 12, 3]))).toBeNull()
  })

  it('that names a block twice - is invalid: no chain repeats a block', () => {
    const fault = 'a stored event that names a block twice'
    expect(kvEventFault(stored([1, 2, 1, 2]))).toBe(fault)
    expect(kvEventFault(stored([1, 2, 3, 4, 5, 6, 1, 2]))).toBe(fault)
  })

  it('with engine hashes and local hashes - is checked by the local hashes', () => {
    expect(kvEventFault(stored([1, 2, 1, 2], Uint32Array.of(7, 8, 7, 8)))).toBeNull()
  })
})

describe('ownReport', () => {
  const load = {
    dpRank: 0,
    activeBlocks: 1,
    totalBlocks: 10,
    runningRequests: 1,
    queuedRequests: 0,
    prefillTokensInFlight: 0,
  }

  it('an engine that uses the same object again - does not change what was reported', () => {
    const step = { ...load }
    const own = ownReport(step, loadReportFault)
    step.queuedRequests = 3
    expect(own).toEqual(load)
  })

  it('a field that returns something else the second time - is read once', () => {
    const event = stored([1, 2])
    let reads = 0
    Object.defineProperty(event, 'tier', {
      enumerable: true,
      get: () => (reads++ === 0 ? 'device' : 'tape'),
    })
    expect(ownReport(event, kvEventFault)).toEqual(stored([1, 2]))
    expect(reads).toBe(1)
  })

  it.each([
    ['no record', null, 'an event is not a record'],
    ['a wrong field', { ...stored([1, 2]), tier: 'tape' }, "tier 'tape'"],
  ])('%s - is what is wrong with it', (_name, event, fault) => {
    expect(ownReport(event as KvEvent, kvEventFault)).toBe(fault)
  })
})

describe('rankFault', () => {
  it.each([
    [{}, 0, 0],
    [{ dataParallelSize: 3 }, 0, 2],
    [{ dataParallelStartRank: 4 }, 4, 4],
    [{ dataParallelStartRank: 4, dataParallelSize: 2 }, 4, 5],
  ])('the ranks of %j are %i to %i - the ones below and above are unknown', (config, from, to) => {
    expect([rankFault(from, config), rankFault(to, config)]).toEqual([null, null])
    expect(rankFault(from - 1, config)).toContain(`rank ${from - 1}: the engine's config names`)
    expect(rankFault(to + 1, config)).toContain(`rank ${to + 1}: the engine's config names`)
  })

  it.each([0.5, NaN, '0', 0n, null])('%s - is no rank', (rank) => {
    expect(rankFault(rank as never, {})).toContain("the engine's config names rank 0")
  })
})
