/**
 * The result of a prefix query: for each holder the number of cached leading blocks of the prompt, by tier. Reused
 * for all queries.
 *
 * `device[h]` counts blocks from the first one on; `host[h]` those that follow without a gap in host memory;
 * `disk[h]` those that follow without a gap on disk. Zero if nothing is held. `holders[0 .. count)` lists, once each
 * and unordered, all holders for which any of the three is not zero.
 */
import { grown } from '../words/grown.ts'

/** With at least this many entries, clearing everything with a native fill is faster than clearing entry by entry. */
const FILL_MIN = 64
const FILL_PER_HOLDER = 8

export class PrefixMatches {
  count = 0
  /** Whether any `host` or `disk` count may be non-zero; set by whoever writes them. */
  hasLower = false
  holders: Int32Array
  device: Int32Array
  host: Int32Array
  disk: Int32Array

  constructor(holderCount = 64) {
    this.holders = new Int32Array(holderCount)
    this.device = new Int32Array(holderCount)
    this.host = new Int32Array(holderCount)
    this.disk = new Int32Array(holderCount)
  }

  /** Makes space for holders 0 .. holderCount-1 and keeps the content. Read the arrays again afterwards. */
  reserve(holderCount: number): void {
    if (holderCount <= this.device.length) return
    const length = Math.max(holderCount, 2 * this.device.length)
    this.holders = grown(this.holders, length)
    this.device = grown(this.device, length)
    this.host = grown(this.host, length)
    this.disk = grown(this.disk, length)
  }

  clear(): void {
    const { count, holders, device, host, disk } = this
    if (count >= FILL_MIN && FILL_PER_HOLDER * count > device.length) {
      device.fill(0)
    } else {
      for (let i = 0; i < count; i++) device[holders[i] as number] = 0
    }
    for (let i = 0; this.hasLower && i < count; i++) {
      host[holders[i] as number] = 0
      disk[holders[i] as number] = 0
    }
    this.hasLower = false
    this.count = 0
  }

  /**
   * Merges a prediction: where `side` has more device blocks, that number is used, and the lower tiers keep only what
   * goes beyond it.
   */
  raise(side: PrefixMatches): void {
    for (let i = 0; i < side.count; i++) {
      const holder = side.holders[i] as number
      this.reserve(holder + 1)
      const predicted = side.device[holder] as number
      const device = this.device[holder] as number
      if (predicted <= device) continue
      const withHost = device + (this.host[holder] as number)
      const withDisk = withHost + (this.disk[holder] as number)
      if (withDisk === 0) this.add(holder)
      this.device[holder] = predicted
      this.host[holder] = Math.max(0, withHost - predicted)
      this.disk[holder] = Math.max(0, withDisk - Math.max(withHost, predicted))
    }
  }

  /** Adds a holder whose three counts were zero. */
  add(holder: number): void {
    this.holders[this.count++] = holder
  }
}
