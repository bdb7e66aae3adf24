import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { readNpz } from './npz.ts'

const fixture = (name: string): Buffer =>
  readFileSync(new URL(`../../../test/fixtures/planner-profile-${name}.npz`, import.meta.url))

/** Any bytes give arrays, or a `config.invalid` error. */
function readOrRefuse(bytes: Buffer): void {
  try {
    readNpz(bytes)
  } catch (error) {
    if (!(error instanceof BatonError && error.code === 'config.invalid')) throw error
  }
}

describe('readNpz - archives as NumPy writes them', () => {
  it.each(['stored', 'deflated'])('%s - five arrays of different types and orders', (name) => {
    expect(Object.fromEntries(readNpz(fixture(name)))).toEqual({
      prefill_isl: [100, 1000, 10_000],
      prefill_ttft_ms: [10, 50, 400],
      decode_active_kv_tokens: [0, 1000],
      decode_context_length: [0, 500, 1000],
      decode_itl: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    })
  })

  it.each(['stored', 'deflated'])('%s, truncated anywhere - is refused', (name) => {
    const bytes = fixture(name)
    for (let end = 0; end < bytes.length; end++)
      expect(() => readNpz(bytes.subarray(0, end))).toThrow(BatonError)
  })

  it('changed or random bytes - at most a refusal', () => {
    const whole = fixture('deflated')
    const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255))
    fc.assert(
      fc.property(fc.array(change, { maxLength: 4 }), (changes) => {
        const bytes = Buffer.from(whole)
        for (const [at, value] of changes) bytes[at] = value
        readOrRefuse(bytes)
      }),
      { numRuns: 500 },
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => readOrRefuse(Buffer.from(bytes))),
    )
  })
})
