/** What `kvBlocks` of an engine return is read once, and by its memory. */
import { describe, expect, it } from 'vitest'
import type { KvBlockSource } from './kv-block-source.ts'
import { checkedBlocks, ownIndexes, ownPinnedBlocks } from './kv-block-faults.ts'

function refuse(): never {
  throw new Error('no')
}

class OddKeys extends Uint32Array {
  override get length(): number {
    return 1000
  }
  override get buffer(): never {
    return refuse()
  }
}

class OddBytes extends Uint8Array {
  override get length(): number {
    return 1000
  }
  override subarray(): never {
    return refuse()
  }
}

describe('ownPinnedBlocks', () => {
  const pin = { tokenCount: 4, blockKeys: Uint32Array.of(1, 2, 3, 4), kvBytes: 8 }

  it('keys that the engine uses again - do not change the pin', () => {
    const blockKeys = Uint32Array.from(pin.blockKeys)
    const own = ownPinnedBlocks({ ...pin, blockKeys }, 5, 2)
    blockKeys[0] = 9
    expect(own).toEqual(pin)
  })

  it('keys of a subclass - become an array of the base class, of the length that they have', () => {
    const own = ownPinnedBlocks({ ...pin, blockKeys: new OddKeys(4) }, 5, 2) as typeof pin
    expect(own.blockKeys).toEqual(new Uint32Array(4))
    expect(own.blockKeys.constructor).toBe(Uint32Array)
  })

  it('a field that changes - is read once', () => {
    let reads = 0
    const shifty = Object.defineProperty({ ...pin }, 'tokenCount', {
      get: () => (reads++ === 0 ? 4 : 'x'),
    })
    expect(ownPinnedBlocks(shifty, 5, 2)).toEqual(pin)
  })

  it.each([
    [2, '2 halves of keys instead of 4'],
    [6, '6 halves of keys instead of 4'],
  ])('%i halves of keys for two blocks - are refused', (length, fault) => {
    expect(ownPinnedBlocks({ ...pin, blockKeys: new OddKeys(length) }, 5, 2)).toBe(fault)
  })

  it('keys behind a proxy - are refused', () => {
    const blockKeys = new Proxy(pin.blockKeys, {})
    expect(ownPinnedBlocks({ ...pin, blockKeys }, 5, 2)).toBe('blockKeys is no Uint32Array')
  })
})

describe('checkedBlocks', () => {
  const read = (bytes: unknown): Uint8Array | undefined => {
    const source = { fingerprint: 'f', blockTokens: 2, get: () => bytes }
    return checkedBlocks(source as unknown as KvBlockSource, () => undefined).get(1, 2)
  }

  it('bytes of a subclass - become an array of the base class in the same memory', () => {
    const odd = new OddBytes(3)
    const block = read(odd)
    odd[0] = 7
    expect(block).toEqual(Uint8Array.of(7, 0, 0))
    expect(block?.constructor).toBe(Uint8Array)
  })

  it('ordinary bytes - are not copied', () => {
    const bytes = Uint8Array.of(1)
    expect(read(bytes)).toBe(bytes)
  })

  it.each<[string, unknown]>([
    ['behind a proxy', new Proxy(Uint8Array.of(1), {})],
    ['none', new OddBytes(0)],
  ])('bytes %s - are no block', (_name, bytes) => {
    expect(read(bytes)).toBeUndefined()
  })
})

describe('ownIndexes', () => {
  it.each([[[]], [[0]], [[0, 1]]])('%j of two blocks - are taken', (given) => {
    expect(ownIndexes(given, 2)).toEqual(given)
  })

  it.each<[string, unknown]>([
    ['more indexes than blocks', [0, 1, 1]],
    ['an index above the last one', [2]],
    ['an index below zero', [-1]],
    ['a hole', Object.assign([], { length: 1 })],
    ['4 billion holes', Object.assign([], { length: 2 ** 32 - 1 })],
    ['no list', new Set([0])],
  ])('%s - is an error of the engine', (_name, given) => {
    expect(() => ownIndexes(given, 2)).toThrow(/kv-blocks-invalid/)
  })
})
