/**
 * The answer of a prefix index: for each holder how many blocks of the prompt it has, by tier. Reused for every query.
 *
 * `device[h]` counts blocks from the first on; `host[h]` counts those that follow without a gap in host memory,
 * `disk[h]` those that follow after these. Zero where nothing is held. `holders[0 .. count)` names, once each and in
 * no order, all holders of which one of the three is not zero.
 */
/** A native fill of everything beats a loop over what is set when there is so much of it. */
const FILL_MIN = 64
const FILL_PER_HOLDER = 8

export class PrefixMatches {
  count = 0
  /** Whether `host` or `disk` may be other than zero; set by whoever writes there. */
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

  /** Space for holders 0 .. holderCount-1; keeps what is in it. Read the arrays anew afterwards. */
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
   * Takes over a prediction: where `side` has more blocks on the device, that many count, and what the lower tiers
   * have beyond them.
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

  /** Names a holder whose three counts were zero. */
  add(holder: number): void {
    this.holders[this.count++] = holder
  }
}

function grown(old: Int32Array, length: number): Int32Array {
  const array = new Int32Array(length)
  array.set(old)
  return array
}
