import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { assembleState, cutBlock, parseState } from './state-codec.ts'
import { bytesPerTokenOf } from './state-layout.ts'
import type { KvLayout } from './state-layout.ts'

function layoutOf(rowBytes: readonly number[], elements: number, elementBytes = 2): KvLayout {
  const keys = rowBytes.map((bytes) => ({
    type: 1,
    rowBytes: bytes,
    elementBytes: bytes,
    elements: 1,
  }))
  const values = rowBytes.map(() => ({
    type: 1,
    rowBytes: elementBytes * elements,
    elementBytes,
    elements,
  }))
  const plain = values.map((row) => ({ ...row, elementBytes: row.rowBytes, elements: 1 }))
  const isTransposed = elements > 1
  return {
    valuesTransposed: isTransposed,
    keys,
    values: isTransposed ? values : plain,
    bytesPerToken: bytesPerTokenOf(keys, values),
  }
}

const layouts = fc
  .tuple(
    fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 }),
    fc.integer({ min: 1, max: 6 }),
    fc.constantFrom(1, 2, 3, 4, 8),
  )
  .map(([rows, elements, elementBytes]) => layoutOf(rows, elements, elementBytes))

const blockSizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 6 })

function randomBlocks(layout: KvLayout, sizes: readonly number[], seed: number) {
  let x = seed | 1
  return sizes.map((tokenCount) => ({
    tokenCount,
    bytes: Uint8Array.from({ length: tokenCount * layout.bytesPerToken }, () => {
      x = Math.imul(x, 1_103_515_245) + 12_345
      return x >>> 16
    }),
  }))
}

function isRefused(action: () => unknown): boolean {
  try {
    action()
    return false
  } catch (error) {
    if (error instanceof BatonError && error.code === 'kv.block_refused') return true
    throw error
  }
}

describe('sequence state codec', () => {
  it('assembled and split again - the same blocks, for every layout and slot', () => {
    fc.assert(
      fc.property(
        layouts,
        blockSizes,
        fc.integer(),
        fc.integer({ min: 1, max: 5 }),
        (layout, sizes, seed, streams) => {
          const blocks = randomBlocks(layout, sizes, seed)
          const state = parseState(assembleState(layout, blocks, streams))
          expect(state.layout).toEqual(layout)
          let at = 0
          for (const block of blocks) {
            expect(cutBlock(state, at, at + block.tokenCount)).toEqual(block.bytes)
            at += block.tokenCount
          }
          expect(state.tokenCount).toBe(at)
        },
      ),
    )
  })

  it('split at one place and joined at another - the same state', () => {
    fc.assert(
      fc.property(layouts, fc.integer({ min: 2, max: 30 }), fc.integer(), (layout, count, seed) => {
        const whole = assembleState(layout, randomBlocks(layout, [count], seed), 2)
        const state = parseState(whole)
        const middle = 1 + (Math.abs(seed) % (count - 1))
        const parts = [
          { tokenCount: middle, bytes: cutBlock(state, 0, middle) },
          { tokenCount: count - middle, bytes: cutBlock(state, middle, count) },
        ]
        expect(assembleState(layout, parts, 2)).toEqual(whole)
      }),
    )
  })

  it('truncated anywhere, or with extra bytes - refused', () => {
    const layout = layoutOf([6, 4], 3)
    const whole = assembleState(layout, randomBlocks(layout, [3, 2], 5), 3)
    for (let length = 0; length < whole.length; length++) {
      expect(isRefused(() => parseState(whole.subarray(0, length)))).toBe(true)
    }
    const longer = new Uint8Array(whole.length + 1)
    longer.set(whole)
    expect(isRefused(() => parseState(longer))).toBe(true)
  })

  it('random and damaged bytes - refused, or a state within its bytes; never another error', () => {
    const layout = layoutOf([6, 4], 1)
    const whole = assembleState(layout, randomBlocks(layout, [3, 2], 5), 2)
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, value) => {
        const damaged = Uint8Array.from(whole)
        damaged[at] = value
        if (isRefused(() => parseState(damaged))) return
        const state = parseState(damaged)
        expect(cutBlock(state, 0, state.tokenCount).length).toBeLessThanOrEqual(whole.length)
      }),
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => isRefused(() => parseState(bytes))),
    )
  })

  it('a block of the wrong length - is not put into a state', () => {
    const layout = layoutOf([6], 1)
    const [block] = randomBlocks(layout, [4], 1)
    const short = { tokenCount: 4, bytes: block?.bytes.subarray(1) ?? new Uint8Array(0) }
    expect(isRefused(() => assembleState(layout, [short], 1))).toBe(true)
  })
})
