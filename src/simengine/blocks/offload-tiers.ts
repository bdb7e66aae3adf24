/**
 * Host memory and disk beside the device: computed blocks are copied to the host, from there to disk, and back when a
 * prompt needs them.
 *
 * Copying out runs in the background and only takes link time; fetching back delays only the request that needs it.
 * Each direction has its own link. Owns the location and arrival time of blocks; the device's blocks are in
 * `BlockPool`, waiting requests in `SimScheduler`.
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
  /** Blocks on the way to the host, so that none is copied twice. */
  readonly #onTheWay = new Set<number>()

  constructor(config: OffloadConfig, events: BlockEvents | null) {
    const { hostBlocks, diskBlocks, batchBlocks, msPerBlock } = config
    this.#host = new TierStore(hostBlocks, 'host', events)
    this.#disk = diskBlocks === 0 ? null : new TierStore(diskBlocks, 'disk', events)
    // Not more than the target holds: earlier blocks would be evicted for later ones.
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

  /** When the next copy arrives; null: none in progress. */
  get arrivesAtMs(): number | null {
    const [host, disk] = [this.#toHost.arrivesAtMs, this.#toDisk.arrivesAtMs]
    return host === null || (disk !== null && disk < host) ? disk : host
  }

  /** A block on the device was computed at `nowMs`. */
  offload(block: TierBlock, nowMs: number): void {
    const key = blockKey(block.low, block.high)
    if (this.#onTheWay.has(key) || this.#host.get(block.low, block.high) !== undefined) return
    if (this.#toHost.push(block, nowMs)) this.#onTheWay.add(key)
  }

  /** Completes all copies that have arrived by `nowMs`. */
  advance(nowMs: number): void {
    for (;;) {
      const atMs = this.arrivesAtMs
      if (atMs === null || atMs > nowMs) return
      if (this.#toHost.arrivesAtMs === atMs) {
        for (const block of this.#toHost.arrive()) this.#arriveAtHost(block, atMs)
      } else for (const block of this.#toDisk.arrive()) this.#disk?.store(block)
    }
  }

  /** Number of consecutive blocks of the chain held here, from block `from` on and before block `to`. */
  countFrom(hashes: HashChain, from: number, to: number): number {
    let at = from
    while (at < to && 2 * at < hashes.length && this.#holds(hashes.words, at)) at += 1
    return at - from
  }

  /** Copies the blocks [from, to) back to the device; returns when they will have arrived. */
  fetch({ words }: HashChain, from: number, to: number, nowMs: number): number {
    let fromDisk = 0
    // Last block first, so that leaves are evicted before their parents.
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

  /** Removes everything, including copies in progress. */
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
