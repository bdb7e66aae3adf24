/**
 * Listens to what the engine tells about its blocks and its load, and checks that it makes sense.
 */
import type { KvEvent, KvTier, LoadReport } from '../../kv/index.ts'
import type { EngineObserver } from '../engine.ts'
import type { ReportBuilder } from './conformance-report.ts'

export class ObserverCheck implements EngineObserver {
  readonly #report: ReportBuilder
  /** Stored blocks per rank and tier. */
  readonly #stored = new Map<number, Map<KvTier, Set<string>>>()

  constructor(report: ReportBuilder) {
    this.#report = report
  }

  kvEvents(dpRank: number, events: readonly KvEvent[]): void {
    const stored = this.#stored.get(dpRank) ?? new Map<KvTier, Set<string>>()
    this.#stored.set(dpRank, stored)
    for (const event of events) {
      if (event.kind === 'cleared') stored.clear()
      else if (event.hashes.length === 0 || event.hashes.length % 2 !== 0)
        this.#report.fail('kv-event-malformed', `${event.kind} with ${event.hashes.length} halves`)
      else if (event.kind === 'stored') this.#store(event, stored)
      else this.#remove(event, stored)
    }
  }

  load(report: LoadReport): void {
    const numbers = Object.values(report) as number[]
    if (!numbers.every((value) => Number.isSafeInteger(value) && value >= 0))
      this.#report.fail('load-report-invalid', JSON.stringify(report))
    else if (report.activeBlocks > report.totalBlocks)
      this.#report.fail('load-report-invalid', 'more active blocks than there are')
  }

  #store(event: Extract<KvEvent, { kind: 'stored' }>, stored: Map<KvTier, Set<string>>): void {
    const { parent, hashes, localHashes, tier } = event
    if (localHashes.length !== 0 && localHashes.length !== hashes.length)
      this.#report.fail('kv-event-malformed', 'local hashes are not one per block')
    // A parent may lie in another tier than its child.
    const isKnown = (key: string): boolean => [...stored.values()].some((blocks) => blocks.has(key))
    if (parent !== null && !isKnown(`${parent[0]}:${parent[1]}`))
      this.#report.fail('kv-event-parent-unknown', `parent ${parent[0]}:${parent[1]}`)
    const held = stored.get(tier) ?? new Set<string>()
    stored.set(tier, held)
    for (const key of keysOf(hashes)) held.add(key)
  }

  #remove(event: Extract<KvEvent, { kind: 'removed' }>, stored: Map<KvTier, Set<string>>): void {
    for (const key of keysOf(event.hashes)) {
      if (stored.get(event.tier)?.delete(key) !== true)
        this.#report.fail('kv-event-removed-unknown', `block ${key}`)
    }
  }
}

function* keysOf(hashes: Uint32Array): Generator<string> {
  for (let i = 0; i < hashes.length; i += 2) yield `${hashes[i]}:${hashes[i + 1]}`
}
