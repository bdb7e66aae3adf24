import { describe, expect, it } from 'vitest'
import { BatonError } from '../base/index.ts'
import { KvBlockStore } from './kv-block-store.ts'
import { promptBlocks, tokensOfBlock } from './prompt-blocks.ts'

const BLOCK = 4
const BYTES = 8

function tokensOf(count: number, first = 1): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => first + i)
}

function createStore(capacityBlocks = 100) {
  const removed: number[] = []
  const store = new KvBlockStore({
    fingerprint: 'f',
    blockTokens: BLOCK,
    bytesPerToken: BYTES,
    capacityBytes: capacityBlocks * BLOCK * BYTES,
    onRemoved: (low) => removed.push(low),
  })
  return { store, removed }
}

/** Stores all blocks that cover a prompt without its last token; returns their keys. */
function fill(store: KvBlockStore, tokenIds: Uint32Array, salt?: string): Uint32Array {
  const blocks = promptBlocks(tokenIds, tokenIds.length - 1, BLOCK, salt)
  for (let i = 0; i < blocks.blockCount; i++) {
    const count = tokensOfBlock(blocks, i)
    const bytes = new Uint8Array(count * BYTES).fill(i)
    store.put(blocks.keys[2 * i] ?? 0, blocks.keys[2 * i + 1] ?? 0, count, bytes)
  }
  return blocks.keys
}

function codeOf(action: () => unknown): string | undefined {
  try {
    action()
    return undefined
  } catch (error) {
    return error instanceof BatonError ? error.code : String(error)
  }
}

describe('KvBlockStore', () => {
  it('pin - covers the prompt without its last token, with a partial block at the end', () => {
    const { store } = createStore()
    const keys = fill(store, tokensOf(11))
    const pin = store.pin(tokensOf(11))
    expect(pin.tokenCount).toBe(10)
    expect(pin.blockKeys).toEqual(keys)
    expect(store.keysOf(tokensOf(11), 10)).toEqual(keys)
    expect(pin.kvBytes).toBe(10 * BYTES)
    expect(store.pinnedBytes).toBe(10 * BYTES)
    pin.release()
    pin.release()
    expect(store.pinnedBytes).toBe(0)
  })

  it('pin - stops at the first block that is not held; another salt or adapter holds nothing', () => {
    const { store } = createStore()
    fill(store, tokensOf(9))
    const longer = store.pin(Uint32Array.of(...tokensOf(8), 70, 71, 72, 73, 74))
    expect(longer.tokenCount).toBe(8)
    expect(store.pin(tokensOf(9), 'tenant').tokenCount).toBe(0)
    expect(store.pin(tokensOf(9), undefined, 'adapter').tokenCount).toBe(0)
    expect(store.pin(new Uint32Array(0)).tokenCount).toBe(0)
    expect(store.pin(tokensOf(1)).blockKeys).toHaveLength(0)
  })

  it('missing - indexes of keys that are not held', () => {
    const { store } = createStore()
    const keys = fill(store, tokensOf(9))
    expect(store.missing(Uint32Array.of(1, 2, ...keys, 3, 4))).toEqual([0, 3])
  })

  it('put beyond the capacity - evicts the end of the least recently used chain', () => {
    const { store, removed } = createStore(4)
    const first = fill(store, tokensOf(9))
    store.heldPrefix(first)
    const second = fill(store, tokensOf(9, 100))
    store.heldPrefix(second)
    fill(store, tokensOf(5, 200))
    expect(store.heldBytes).toBe(4 * BLOCK * BYTES)
    expect(removed).toEqual([first[2]])
    expect(store.heldPrefix(first)).toBe(1)
    fill(store, tokensOf(5, 300))
    expect(removed).toEqual([first[2], second[2]])
  })

  it('pinned blocks - are never evicted; a store full of them accepts no more', () => {
    const { store } = createStore(2)
    const keys = fill(store, tokensOf(9))
    const pins = [store.pin(tokensOf(9)), store.pin(tokensOf(9))]
    expect(store.put(1, 2, BLOCK, new Uint8Array(BLOCK * BYTES))).toBe(false)
    store.clear()
    expect(store.heldPrefix(keys)).toBe(2)
    pins[0]?.release()
    expect(store.put(1, 2, BLOCK, new Uint8Array(BLOCK * BYTES))).toBe(false)
    pins[1]?.release()
    expect(store.put(1, 2, BLOCK, new Uint8Array(BLOCK * BYTES))).toBe(true)
    expect(store.heldBytes).toBeLessThanOrEqual(2 * BLOCK * BYTES)
  })

  it.each([
    ['too short', BLOCK, BLOCK * BYTES - 1],
    ['too long', BLOCK, BLOCK * BYTES + 1],
    ['empty', 0, 0],
    ['more tokens than a block has', BLOCK + 1, (BLOCK + 1) * BYTES],
    ['a broken count', 1.5, 12],
    ['no number', Number.NaN, 0],
  ])('put of a hostile block - refused: %s', (_what, tokens, bytes) => {
    const { store } = createStore()
    expect(codeOf(() => store.put(1, 2, tokens, new Uint8Array(bytes)))).toBe('kv.block_refused')
    expect(store.heldBytes).toBe(0)
  })

  it('put twice - held once, the first bytes are kept', () => {
    const { store } = createStore()
    const bytes = new Uint8Array(BLOCK * BYTES).fill(1)
    store.put(1, 2, BLOCK, bytes)
    store.put(1, 2, BLOCK, new Uint8Array(BLOCK * BYTES).fill(2))
    expect(store.get(1, 2)).toBe(bytes)
    expect(store.heldBytes).toBe(BLOCK * BYTES)
  })

  it('keys that share 53 bits - are distinguished', () => {
    const { store } = createStore()
    const size = BLOCK * BYTES
    store.put(1, 0x1, BLOCK, new Uint8Array(size).fill(1))
    expect(store.get(1, 0x80000001)).toBeUndefined()
    store.put(1, 0x80000001, BLOCK, new Uint8Array(size).fill(2))
    expect(store.get(1, 0x1)).toBeUndefined()
    expect(store.heldBytes).toBe(size)
  })
})

describe('promptBlocks', () => {
  it('a longer prompt - has the same keys for its full blocks, and another for the partial one', () => {
    const short = promptBlocks(tokensOf(11), 10, BLOCK)
    const long = promptBlocks(tokensOf(13), 12, BLOCK)
    expect(short.fullBlocks).toBe(2)
    expect(short.blockCount).toBe(3)
    expect(long.keys.subarray(0, 4)).toEqual(short.keys.subarray(0, 4))
    expect(long.keys.subarray(4)).not.toEqual(short.keys.subarray(4))
    expect(tokensOfBlock(short, 1)).toBe(4)
    expect(tokensOfBlock(short, 2)).toBe(2)
  })

  describe('allocate', () => {
    const put = (store: KvBlockStore, key: number): Uint8Array => {
      const bytes = store.allocate(BLOCK * BYTES)
      bytes.fill(key)
      expect(store.put(key, 0, BLOCK, bytes)).toBe(true)
      return bytes
    }

    it('memory of an evicted block - is reused, as a new view', () => {
      const { store } = createStore(2)
      const first = put(store, 1)
      put(store, 2)
      put(store, 3)
      const again = store.allocate(BLOCK * BYTES)
      expect(again.buffer).toBe(first.buffer)
      expect(again).not.toBe(first)
      expect(store.allocate(BLOCK * BYTES).buffer).not.toBe(first.buffer)
    })

    it('another length - gets other memory', () => {
      const { store } = createStore(1)
      const first = put(store, 1)
      put(store, 2)
      const other = store.allocate(BYTES)
      expect(other.length).toBe(BYTES)
      expect(other.buffer).not.toBe(first.buffer)
    })

    const keys = promptBlocks(tokensOf(BLOCK + 1), BLOCK, BLOCK).keys
    const [low = 0, high = 0] = keys

    it.each([
      ['that was read without a pin', (store: KvBlockStore) => store.get(low, high)],
      [
        'whose pin ended while it was still read',
        (store: KvBlockStore) => store.pin(tokensOf(BLOCK + 1)).release(true),
      ],
    ])('memory of a block %s - is not given again', (_name, lend) => {
      const { store } = createStore(1)
      const bytes = store.allocate(BLOCK * BYTES)
      store.put(low, high, BLOCK, bytes)
      lend(store)
      put(store, 2)
      expect(store.allocate(BLOCK * BYTES).buffer).not.toBe(bytes.buffer)
    })

    it('memory of a block that was read under a pin - is reused afterwards', () => {
      const { store } = createStore(1)
      const bytes = store.allocate(BLOCK * BYTES)
      store.put(low, high, BLOCK, bytes)
      const pin = store.pin(tokensOf(BLOCK + 1))
      store.get(low, high)
      pin.release()
      put(store, 2)
      expect(store.allocate(BLOCK * BYTES).buffer).toBe(bytes.buffer)
    })

    it('memory not from allocate - is never reused', () => {
      const { store } = createStore(1)
      const foreign = new Uint8Array(BLOCK * BYTES)
      store.put(1, 0, BLOCK, foreign)
      put(store, 2)
      expect(store.allocate(BLOCK * BYTES).buffer).not.toBe(foreign.buffer)
    })

    it('prepared memory - is used and reported; none is prepared beyond the capacity', () => {
      const created: Uint8Array[] = []
      let taken = 0
      const store = new KvBlockStore({
        fingerprint: 'f',
        blockTokens: BLOCK,
        bytesPerToken: BYTES,
        capacityBytes: 3 * BLOCK * BYTES,
        createMemory: (length) => {
          const bytes = new Uint8Array(length).fill(9)
          created.push(bytes)
          return bytes
        },
        onSpareTaken: () => taken++,
      })
      put(store, 1)
      expect(taken).toBe(0)
      expect(store.prepare(1)).toBe(true)
      expect(created).toHaveLength(2)
      // Touched.
      expect(created[1]?.[0]).toBe(0)
      expect(store.prepare(2 * BLOCK * BYTES)).toBe(false)
      expect(created).toHaveLength(3)
      expect(store.prepare(1)).toBe(false)
      expect(put(store, 2).buffer).toBe(created[2]?.buffer)
      expect(taken).toBe(1)
      expect(store.prepare(1)).toBe(false)
      expect(put(store, 3).buffer).toBe(created[1]?.buffer)
      expect(created).toHaveLength(3)
    })

    it.each([
      ['16 blocks', 2 ** 21, 16],
      ['16 MiB, where that is more', 2 ** 18, 64],
    ])('memory that waits - is at most %s', (_what, blockBytes, most) => {
      let created = 0
      const store = new KvBlockStore({
        fingerprint: 'f',
        blockTokens: 16,
        bytesPerToken: blockBytes / 16,
        capacityBytes: 2 ** 30,
        createMemory: (length) => {
          created++
          return new Uint8Array(length)
        },
      })
      while (store.prepare(blockBytes));
      expect(created).toBe(most)
      for (let i = 0; i < most; i++) store.put(i, 0, 16, store.allocate(blockBytes))
      expect(created).toBe(most)
      // Evicted blocks wait no more than that, either.
      store.put(most, 0, 16, store.allocate(blockBytes))
      store.clear()
      for (let i = 0; i <= most; i++) store.allocate(blockBytes)
      expect(created).toBe(most + 2)
    })

    it('a block stored twice - the second memory is free at once', () => {
      const { store } = createStore(4)
      put(store, 1)
      const second = put(store, 1)
      expect(store.get(1, 0)?.buffer).not.toBe(second.buffer)
      expect(store.allocate(BLOCK * BYTES).buffer).toBe(second.buffer)
    })
  })
})
