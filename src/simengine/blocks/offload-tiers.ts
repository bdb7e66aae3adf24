/**
 * Memory beside the device: computed blocks are copied to the host, from there to disk, and come back when a prompt
 * needs them again.
 *
 * Copying away is done in the background and costs the engine nothing but the link's time; fetching back makes the
 * request wait, and no one else. Each direction has a link of its own. Owns: what is where and when it arrives. Does
 * not own: the device's blocks (`BlockPool`), who waits (`SimScheduler`).
 */
import type { EngineMetric } from '../../engine/index.ts'
import type { BlockEvents } from './block-events.ts'
import { blockKey } from './block-key.ts'
import { CopyLink } from './copy-link.ts'
import type { HashChain } from './hash-chain.ts'
import type { OffloadConfig } from './offload-config.ts'
import { TierStore } from './tier-store.ts'
import type { TierBlock } from './tier-store.ts'

export class OffloadTiers {
  readonly #host: TierStore
  readonly #disk: TierStore | null
  readonly #toHost: CopyLink<TierBlock>
  readonly #toDisk: CopyLink<TierBlock>
  readonly #fromHost: CopyLink<never>
  readonly #fromDisk: CopyLink<never>
  /** On the way to the host, so that nothing is copied twice. */
  readonly #onTheWay = new Set<number>()

  constructor(config: OffloadConfig, events: BlockEvents | null) {
    const { hostBlocks, diskBlocks, batchBlocks, msPerBlock } = config
    this.#host = new TierStore(hostBlocks, 'host', events)
    this.#disk = diskBlocks === 0 ? null : new TierStore(diskBlocks, 'disk', events)
    // More than a memory holds need not wait for it: what comes first would be given up for what comes last.
    this.#toHost = new CopyLink(msPerBlock.deviceToHost, batchBlocks, hostBlocks)
    this.#toDisk = new CopyLink(msPerBlock.hostToDisk, batchBlocks, diskBlocks)
    this.#fromHost = new CopyLink(msPerBlock.hostToDevice)
    this.#fromDisk = new CopyLink(msPerBlock.diskToHost)
  }

  get hostCount(): number {
    return this.#host.size
  }

  get diskCount(): number {
    return this.#disk?.size ?? 0
  }

  metrics(dpRank: number): readonly EngineMetric[] {
    const gauge = (tier: string, value: number): EngineMetric => ({
      name: 'kv_blocks_offloaded',
      help: 'Blocks of KV in memory behind the device',
      kind: 'gauge',
      value,
      labels: { dp_rank: String(dpRank), tier },
    })
    return [gauge('host', this.hostCount), gauge('disk', this.diskCount)]
  }

  /** When the next copy arrives; null: nothing is under way. */
  get arrivesAtMs(): number | null {
    const [host, disk] = [this.#toHost.arrivesAtMs, this.#toDisk.arrivesAtMs]
    return host === null || (disk !== null && disk < host) ? disk : host
  }

  /** A block of the device has been computed at `nowMs`. */
  offload(block: TierBlock, nowMs: number): void {
    const key = blockKey(block.low, block.high)
    if (this.#onTheWay.has(key) || this.#host.get(block.low, block.high) !== undefined) return
    if (this.#toHost.push(block, nowMs)) this.#onTheWay.add(key)
  }

  /** Lets arrive what has arrived until then. */
  advance(nowMs: number): void {
    for (;;) {
      const atMs = this.arrivesAtMs
      if (atMs === null || atMs > nowMs) return
      if (this.#toHost.arrivesAtMs === atMs) {
        for (const block of this.#toHost.arrive()) this.#arriveAtHost(block, atMs)
      } else for (const block of this.#toDisk.arrive()) this.#disk?.store(block)
    }
  }

  /** How many blocks of the chain are held here in a row, from block `from` on and before block `to`. */
  countFrom(hashes: HashChain, from: number, to: number): number {
    let at = from
    while (at < to && 2 * at < hashes.length && this.#holds(hashes.words, at)) at += 1
    return at - from
  }

  /** Brings the blocks [from, to) back to the device; returns when they are there. */
  fetch({ words }: HashChain, from: number, to: number, nowMs: number): number {
    let fromDisk = 0
    // Leaves first, so that they are the first to go again.
    for (let at = to - 1; at >= from; at--) {
      const [low, high] = [words[2 * at]!, words[2 * at + 1]!]
      if (this.#host.get(low, high) === undefined) fromDisk += 1
      this.#host.use(low, high)
      this.#disk?.use(low, high)
    }
    const inHost = to - from - fromDisk
    const atMs = inHost === 0 ? nowMs : this.#fromHost.reserve(inHost, nowMs)
    if (fromDisk === 0) return atMs
    return this.#fromHost.reserve(fromDisk, this.#fromDisk.reserve(fromDisk, nowMs))
  }

  /** Forgets everything, also what is under way. */
  clear(): void {
    this.#onTheWay.clear()
    this.#toHost.clear()
    this.#toDisk.clear()
    this.#host.clear()
    this.#disk?.clear()
  }

  #holds(words: Uint32Array, at: number): boolean {
    const [low, high] = [words[2 * at]!, words[2 * at + 1]!]
    return this.#host.get(low, high) !== undefined || this.#disk?.get(low, high) !== undefined
  }

  #arriveAtHost(block: TierBlock, atMs: number): void {
    this.#onTheWay.delete(blockKey(block.low, block.high))
    const isTaken = this.#host.store(block)
    if (isTaken && this.#disk !== null && this.#disk.get(block.low, block.high) === undefined)
      this.#toDisk.push(block, atMs)
  }
}
