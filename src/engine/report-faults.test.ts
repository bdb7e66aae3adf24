import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../kv/index.ts'
import { kvEventFault } from './report-faults.ts'

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
