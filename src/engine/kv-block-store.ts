/**
 * Computed KV blocks in host memory: bounded, least recently used out first, pinned ones never.
 *
 * Owns: the blocks' bytes, their pins, and which of them were announced. Blocks of a chain are touched
 * from the last to the first, so that a chain is evicted from its end and what is left of it can still be found.
 * Memory that a process has not touched before costs more than a transfer into it (`bench/transfer.ts`): what `allocate`
 * gave is given again once its block is evicted, unless somebody may still read it; and a store that is not full yet can make
 * some ahead (`prepare`).
 */
import { BatonError } from '../base/index.ts'
import type { KvBlockSource, KvPin } from './kv-block-source.ts'
import { promptBlocks } from './prompt-blocks.ts'

export interface KvBlockStoreOptions {
  readonly fingerprint: string
  readonly blockTokens: number
  readonly bytesPerToken: number
  readonly capacityBytes: number
  /** Makes memory whose content is of no meaning. Default: zeroed. */
  readonly createMemory?: (byteLength: number) => Uint8Array
  /** A full block has left the store. */
  readonly onRemoved?: (keyLow: number, keyHigh: number) => void
  /** Memory that had been touched was given: it may be time to `prepare` more. */
  readonly onSpareTaken?: () => void
}

interface Entry {
  readonly low: number
  readonly high: number
  readonly tokenCount: number
  readonly bytes: Uint8Array
  pins: number
  /** Somebody outside may read the bytes without a pin: their memory is never used again. */
  isLent: boolean
}

/** Memory that waits to be used again is over the capacity, so there is little: so many bytes, or so many blocks where that is more. */
const SPARE_BYTES_MIN = 16 * 1024 * 1024
const SPARE_BLOCKS = 16
/** The least that a system maps at once. */
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
  /** What `allocate` gave; only this is used again. */
  readonly #allocated = new WeakSet<Uint8Array>()
  /** By length: full blocks have one, the last of a prompt may have any shorter one. */
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
    // Another view each time: who remembers something of the old block must not find it at the new one.
    const bytes = again?.subarray() ?? this.#create(byteLength)
    this.#allocated.add(bytes)
    return bytes
  }

  /**
   * Makes and touches memory for at most so many bytes of full blocks to come, and for one block at least. False: enough
   * waits, or evicted blocks will give it.
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

  /** How many of the keys, from the first on, are held; those become the most recently used. */
  heldPrefix(blockKeys: Uint32Array): number {
    const held = this.#prefix(blockKeys)
    for (const entry of held.toReversed()) this.#touch(entry)
    return held.length
  }

  keysOf(tokenIds: Uint32Array, tokenCount: number, salt?: string): Uint32Array {
    return promptBlocks(tokenIds, tokenCount, this.blockTokens, salt).keys
  }

  missing(blockKeys: Uint32Array): number[] {
    const indexes: number[] = []
    for (let i = 0; 2 * i + 1 < blockKeys.length; i++) {
      if (!this.has(blockKeys[2 * i] ?? 0, blockKeys[2 * i + 1] ?? 0)) indexes.push(i)
    }
    return indexes
  }

  pin(tokenIds: Uint32Array, salt?: string): KvPin {
    const count = Math.max(0, tokenIds.length - 1)
    const { keys } = promptBlocks(tokenIds, count, this.blockTokens, salt)
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
    // Two keys that share 53 bits: the newer one wins, as long as the older is not in use.
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

  /** Forgets everything that is not pinned. */
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

/** 53 of the 64 bits, which a number holds exactly; the entry has all of them for the comparison. */
function mapKey(low: number, high: number): number {
  return (high & 0x1fffff) * 0x1_0000_0000 + low
}
