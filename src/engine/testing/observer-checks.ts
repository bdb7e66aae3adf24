/** Receives the engine's reports about its blocks and load, and checks that they are consistent. */
import type { KvEvent, KvTier, LoadReport } from '../../kv/index.ts'
import type { EngineConfig } from '../../request/index.ts'
import type { EngineObserver } from '../engine.ts'
import { ownKvEvents } from '../reports/own-kv-events.ts'
import { ownLoadReport } from '../reports/own-report.ts'
import { shown } from '../shown.ts'
import type { ConformanceRule } from './conformance-rules.ts'
import type { ReportBuilder } from './conformance-report.ts'

/** Number of copies of each stored block: an engine may report each copy. */
type Copies = Map<string, number>

export class ObserverCheck implements Pick<EngineObserver, 'kvEvents' | 'load'> {
  readonly #report: ReportBuilder
  readonly #config: () => EngineConfig
  /** Stored blocks per rank and tier. */
  readonly #stored = new Map<number, Map<KvTier, Copies>>()

  /** `config` is called for each event, because an engine may report before its start has returned. */
  constructor(report: ReportBuilder, config: () => EngineConfig) {
    this.#report = report
    this.#config = config
  }

  kvEvents(dpRank: number, events: readonly KvEvent[]): void {
    const stored = this.#stored.get(dpRank) ?? new Map<KvTier, Copies>()
    this.#stored.set(dpRank, stored)
    this.#judgeRank(dpRank)
    const sound = ownKvEvents(events, (fault) => this.#fail('kv-event-malformed', fault))
    for (const event of sound) {
      if (event.kind === 'cleared') stored.clear()
      else if (event.kind === 'stored') this.#store(event, stored)
      else this.#remove(event, stored)
    }
  }

  load(report: LoadReport): void {
    const own = ownLoadReport(report)
    if (typeof own === 'string') this.#fail('load-report-invalid', own)
    else if (own.activeBlocks > own.totalBlocks)
      this.#fail('load-report-invalid', 'more active blocks than there are')
    else this.#judgeRank(own.dpRank)
  }

  #judgeRank(dpRank: number): void {
    const { dataParallelStartRank = 0, dataParallelSize = 1 } = this.#config()
    const isKnown =
      Number.isInteger(dpRank) &&
      dpRank >= dataParallelStartRank &&
      dpRank < dataParallelStartRank + dataParallelSize
    if (!isKnown) this.#fail('rank-unknown', `rank ${shown(dpRank)} of ${dataParallelSize}`)
  }

  /** Checks `heldKv`, the state that a late subscriber gets. */
  held(dpRank: number, events: readonly KvEvent[]): void {
    ownKvEvents(events, (fault) => this.#fail('kv-event-malformed', `heldKv(${dpRank}): ${fault}`))
  }

  /** Reports arrive between checks, so their faults are not those of the current check. */
  #fail(rule: ConformanceRule, message: string): void {
    this.#report.fail(rule, message, 'observe')
  }

  #store(event: Extract<KvEvent, { kind: 'stored' }>, stored: Map<KvTier, Copies>): void {
    const { parent, hashes, tier } = event
    // A parent may be in another tier than its child.
    const isKnown = (key: string): boolean => [...stored.values()].some((blocks) => blocks.has(key))
    if (parent !== null && !isKnown(`${parent[0]}:${parent[1]}`))
      this.#fail('kv-event-parent-unknown', `parent ${parent[0]}:${parent[1]}`)
    const held: Copies = stored.get(tier) ?? new Map<string, number>()
    stored.set(tier, held)
    for (const key of keysOf(hashes)) held.set(key, (held.get(key) ?? 0) + 1)
  }

  #remove(event: Extract<KvEvent, { kind: 'removed' }>, stored: Map<KvTier, Copies>): void {
    const held = stored.get(event.tier)
    for (const key of keysOf(event.hashes)) {
      const copies = held?.get(key) ?? 0
      if (copies === 0) this.#fail('kv-event-removed-unknown', `block ${key}`)
      else if (copies === 1) held?.delete(key)
      else held?.set(key, copies - 1)
    }
  }
}

function* keysOf(hashes: Uint32Array): Generator<string> {
  for (let i = 0; i < hashes.length; i += 2) yield `${hashes[i]}:${hashes[i + 1]}`
}
