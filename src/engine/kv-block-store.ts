/**
 * Computed KV blocks in host memory: bounded, evicts least recently used blocks, never pinned ones.
 *
 * Owns the blocks' bytes, their pins, and which of them have been announced. The blocks of a chain are touched from
 * the last to the first, so that a chain is evicted from its end and the rest can still be found. Memory that the
 * process has never touched costs more than a transfer into it (`bench/transfer.ts`), so memory from `allocate` is
 * reused after its block is evicted, unless somebody may still read it; and a store that is not full can prepare
 * memory in advance (`prepare`).
 */
import { BatonError } from '../base/index.ts'
import type { KvBlockSource, KvPin } from './kv-block-source.ts'
import { promptBlocks } from './prompt-blocks.ts'

export interface KvBlockStoreOptions {
  readonly fingerprint: string
  readonly blockTokens: number
  readonly bytesPerToken: number
  readonly capacityBytes: number
  /** Allocates memory with undefined content. Default: zeroed memory. */
  readonly createMemory?: (byteLength: number) => Uint8Array
  /** Called when a full block has left the store. */
  readonly onRemoved?: (keyLow: number, keyHigh: number) => void
  /** Called when prepared memory was used: it may be time to `prepare` more. */
  readonly onSpareTaken?: () => void
}

interface Entry {
  readonly low: number
  readonly high: number
  readonly tokenCount: number
  readonly bytes: Uint8Array
  pins: number
  /** The bytes may be read without a pin, so their memory is never reused. */
  isLent: boolean
}

/**
 * Limits of the memory kept for reuse, which comes on top of the capacity: bytes or number of blocks, whichever is
 * more.
 */
const SPARE_BYTES_MIN = 16 * 1024 * 1024
const SPARE_BLOCKS = 16
/** Smallest unit that the operating system maps. */
const PAGE_BYTES = 4096

export class KvBlockStore implements KvBlockSource {
  readonly fingerprint: string
  readonly blockTokens: number
  readonly bytesPerToken: number
  readonly #options: KvBlockStoreOptions
  /** In order of use, the oldest first. */
  readonly #entries = new Map<number, Entry>()
  #heldBytes = 0
  #pinnedBytes = 0
  /** Memory from `allocate`; only this is reused. */
  readonly #allocated = new WeakSet<Uint8Array>()
  /** By length: full blocks have one length, the last block of a prompt may have any shorter one. */
  readonly #spare = new Map<number, Uint8Array[]>()
  readonly #blockBytes: number
  #spareBytes = 0

  constructor(options: KvBlockStoreOptions) {
    this.#options = options
    this.#blockBytes = options.blockTokens * options.bytesPerToken
    this.fingerprint = options.fingerprint
    this.blockTokens = options.blockTokens
    this.bytesPerToken = options.bytesPerToken
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  get pinnedBytes(): number {
    return this.#pinnedBytes
  }

  get blockCount(): number {
    return this.#entries.size
  }

  has(keyLow: number, keyHigh: number): boolean {
    return this.#find(keyLow, keyHigh) !== undefined
  }

  get(keyLow: number, keyHigh: number): Uint8Array | undefined {
    const entry = this.#find(keyLow, keyHigh)
    if (entry?.pins === 0) entry.isLent = true
    return entry?.bytes
  }

  allocate(byteLength: number): Uint8Array {
    const again = this.#spare.get(byteLength)?.pop()
    if (again !== undefined) {
      this.#spareBytes -= byteLength
      this.#options.onSpareTaken?.()
    }
    // A new view each time, so that state attached to the old block's view is not found at the new one.
    const bytes = again?.subarray() ?? this.#create(byteLength)
    this.#allocated.add(bytes)
    return bytes
  }

  /**
   * Allocates and touches memory for full blocks, at most `byteLength` bytes but at least one block. False: there is
   * enough, or evicted blocks will provide it.
   */
  prepare(byteLength: number): boolean {
    const block = this.#blockBytes
    for (let left = byteLength; left > 0; left -= block) {
      const held = this.#heldBytes + this.#spareBytes + block
      if (held > this.#options.capacityBytes || !this.#hasSpareRoom(block)) return false
      const bytes = this.#create(block)
      for (let at = 0; at < block; at += PAGE_BYTES) bytes[at] = 0
      this.#allocated.add(bytes)
      this.#spareMemory(bytes)
    }
    return true
  }

  /** Number of keys held without a gap from the first on; these become the most recently used. */
  heldPrefix(blockKeys: Uint32Array): number {
    const held = this.#prefix(blockKeys)
    for (const entry of held.toReversed()) this.#touch(entry)
    return held.length
  }

  keysOf(tokenIds: Uint32Array, tokenCount: number, salt?: string, loraName?: string): Uint32Array {
    return promptBlocks(tokenIds, tokenCount, this.blockTokens, salt, loraName).keys
  }

  missing(blockKeys: Uint32Array): number[] {
    const indexes: number[] = []
    for (let i = 0; 2 * i + 1 < blockKeys.length; i++) {
      if (!this.has(blockKeys[2 * i] ?? 0, blockKeys[2 * i + 1] ?? 0)) indexes.push(i)
    }
    return indexes
  }

  pin(tokenIds: Uint32Array, salt?: string, loraName?: string): KvPin {
    const count = Math.max(0, tokenIds.length - 1)
    const { keys } = promptBlocks(tokenIds, count, this.blockTokens, salt, loraName)
    const held = this.#prefix(keys)
    let tokenCount = 0
    let kvBytes = 0
    for (const entry of held.toReversed()) {
      this.#touch(entry)
      if (entry.pins++ === 0) this.#pinnedBytes += entry.bytes.length
      tokenCount += entry.tokenCount
      kvBytes += entry.bytes.length
    }
    let released = false
    const release = (isStillRead = false): void => {
      if (released) return
      released = true
      for (const entry of held) {
        if (isStillRead) entry.isLent = true
        if (--entry.pins === 0) this.#pinnedBytes -= entry.bytes.length
      }
    }
    return { tokenCount, blockKeys: keys.slice(0, held.length * 2), kvBytes, release }
  }

  put(keyLow: number, keyHigh: number, tokenCount: number, bytes: Uint8Array): boolean {
    this.#check(tokenCount, bytes)
    const known = this.#find(keyLow, keyHigh)
    if (known !== undefined) {
      this.#touch(known)
      if (known.bytes !== bytes) this.#spareMemory(bytes)
      return true
    }
    if (!this.#makeSpace(bytes.length)) return false
    const id = mapKey(keyLow, keyHigh)
    // Two keys that share 53 bits: the newer one wins, unless the older one is pinned.
    const rival = this.#entries.get(id)
    if (rival !== undefined) {
      if (rival.pins > 0) return false
      this.#remove(rival)
    }
    this.#entries.set(id, {
      low: keyLow,
      high: keyHigh,
      tokenCount,
      bytes,
      pins: 0,
      isLent: false,
    })
    this.#heldBytes += bytes.length
    return true
  }

  /** Removes everything that is not pinned. */
  clear(): void {
    for (const entry of this.#entries.values()) if (entry.pins === 0) this.#remove(entry)
  }

  #check(tokenCount: number, bytes: Uint8Array): void {
    const { bytesPerToken, blockTokens } = this.#options
    const isCount = Number.isInteger(tokenCount) && tokenCount >= 1 && tokenCount <= blockTokens
    if (isCount && bytes.length === tokenCount * bytesPerToken) return
    throw new BatonError(
      'kv.block_refused',
      `a KV block of ${tokenCount} tokens with ${bytes.length} bytes does not fit this model: ` +
        `blocks have 1 to ${blockTokens} tokens of ${bytesPerToken} bytes`,
    )
  }

  #makeSpace(bytes: number): boolean {
    const limit = this.#options.capacityBytes
    if (bytes > limit - this.#pinnedBytes) return false
    for (const entry of this.#entries.values()) {
      if (this.#heldBytes + bytes <= limit) break
      if (entry.pins === 0) this.#remove(entry)
    }
    return this.#heldBytes + bytes <= limit
  }

  #remove(entry: Entry): void {
    this.#entries.delete(mapKey(entry.low, entry.high))
    this.#heldBytes -= entry.bytes.length
    if (!entry.isLent) this.#spareMemory(entry.bytes)
    if (entry.tokenCount === this.blockTokens) this.#options.onRemoved?.(entry.low, entry.high)
  }

  #spareMemory(bytes: Uint8Array): void {
    if (!this.#allocated.delete(bytes) || !this.#hasSpareRoom(bytes.length)) return
    const spare = this.#spare.get(bytes.length)
    if (spare === undefined) this.#spare.set(bytes.length, [bytes])
    else spare.push(bytes)
    this.#spareBytes += bytes.length
  }

  #hasSpareRoom(byteLength: number): boolean {
    const max = Math.max(SPARE_BYTES_MIN, SPARE_BLOCKS * this.#blockBytes)
    return this.#spareBytes + byteLength <= max
  }

  #create(byteLength: number): Uint8Array {
    return this.#options.createMemory?.(byteLength) ?? new Uint8Array(byteLength)
  }

  #prefix(blockKeys: Uint32Array): Entry[] {
    const held: Entry[] = []
    for (let i = 0; i + 1 < blockKeys.length; i += 2) {
      const entry = this.#find(blockKeys[i] ?? 0, blockKeys[i + 1] ?? 0)
      if (entry === undefined) break
      held.push(entry)
    }
    return held
  }

  #find(low: number, high: number): Entry | undefined {
    const entry = this.#entries.get(mapKey(low, high))
    return entry !== undefined && entry.low === low && entry.high === high ? entry : undefined
  }

  #touch(entry: Entry): void {
    const id = mapKey(entry.low, entry.high)
    this.#entries.delete(id)
    this.#entries.set(id, entry)
  }
}

/** 53 of the 64 bits, which a double holds exactly; the entry has all bits for comparison. */
function mapKey(low: number, high: number): number {
  return (high & 0x1fffff) * 0x1_0000_0000 + low
}
