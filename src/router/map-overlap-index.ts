/**
 * The plainest index that is right: for every sequence hash the slots that hold the block, by tier.
 */
import { hashToBigint } from '../kv/index.ts'
import type { BlockHashes, KvEvent, KvTier } from '../kv/index.ts'
import type { OverlapIndex, OverlapScores } from './overlap-index.ts'

type Holders = Map<bigint, Set<number>>

export class MapOverlapIndex implements OverlapIndex {
  readonly #tiers: Record<KvTier, Holders> = { device: new Map(), host: new Map(), disk: new Map() }
  readonly #predicted = new Map<bigint, Map<number, number>>()
  readonly #ttlMs: number

  constructor(ttlMs: number) {
    this.#ttlMs = ttlMs
  }

  find(hashes: BlockHashes, out: OverlapScores): void {
    out.device.fill(0)
    out.host.fill(0)
    out.disk.fill(0)
    out.hasLowerTiers = this.#tiers.host.size > 0 || this.#tiers.disk.size > 0
    const { sequence } = hashes
    for (let i = 0; 2 * i < sequence.length; i++) {
      const key = keyAt(sequence, i)
      const device = new Set([
        ...(this.#tiers.device.get(key) ?? []),
        ...(this.#predicted.get(key)?.keys() ?? []),
      ])
      for (const slot of device) if (out.device[slot] === i) out.device[slot] = i + 1
      for (const slot of this.#tiers.host.get(key) ?? []) {
        if (reached(out, slot, 'host') === i) out.host[slot] = (out.host[slot] as number) + 1
      }
      for (const slot of this.#tiers.disk.get(key) ?? []) {
        if (reached(out, slot, 'disk') === i) out.disk[slot] = (out.disk[slot] as number) + 1
      }
    }
  }

  apply(slot: number, events: readonly KvEvent[]): number {
    for (const event of events) this.#applyOne(slot, event)
    return 0
  }

  removeSlot(slot: number): void {
    for (const holders of Object.values(this.#tiers)) {
      for (const [key, slots] of holders)
        if (slots.delete(slot) && slots.size === 0) holders.delete(key)
    }
    for (const slots of this.#predicted.values()) slots.delete(slot)
  }

  predict(slot: number, hashes: BlockHashes, nowMs: number): void {
    if (this.#ttlMs === 0) return
    for (let i = 0; 2 * i < hashes.sequence.length; i++) {
      const key = keyAt(hashes.sequence, i)
      const slots = this.#predicted.get(key) ?? new Map<number, number>()
      slots.set(slot, nowMs + this.#ttlMs)
      this.#predicted.set(key, slots)
    }
  }

  expire(nowMs: number): void {
    for (const [key, slots] of this.#predicted) {
      for (const [slot, untilMs] of slots) if (untilMs <= nowMs) slots.delete(slot)
      if (slots.size === 0) this.#predicted.delete(key)
    }
  }

  #applyOne(slot: number, event: KvEvent): void {
    if (event.kind === 'cleared') {
      this.removeSlot(slot)
      return
    }
    const holders = this.#tiers[event.tier]
    for (let i = 0; 2 * i < event.hashes.length; i++) {
      const key = keyAt(event.hashes, i)
      const slots = holders.get(key) ?? new Set<number>()
      if (event.kind === 'stored') slots.add(slot)
      else slots.delete(slot)
      if (slots.size === 0) holders.delete(key)
      else holders.set(key, slots)
    }
  }
}

function keyAt(pairs: Uint32Array, block: number): bigint {
  return hashToBigint(pairs[2 * block] as number, pairs[2 * block + 1] as number)
}

/** Blocks from the first on that a slot holds in this tier or the ones above. */
function reached(out: OverlapScores, slot: number, tier: 'host' | 'disk'): number {
  const above = (out.device[slot] as number) + (out.host[slot] as number)
  return tier === 'host' ? above : above + (out.disk[slot] as number)
}
