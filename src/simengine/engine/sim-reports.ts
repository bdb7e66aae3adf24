/**
 * Forwards the ranks' reports about blocks and load to the worker and, with `kvEventsPort`, to external subscribers.
 *
 * The cache of a decode worker is of no use to a router, so its events are sent to neither.
 */
import type { Clock } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { EngineConfig } from '../../request/index.ts'
import type { EngineObserver } from '../../engine/index.ts'
import type { SimKvEvent } from '../blocks/block-content.ts'
import { kvBroadcastBatch } from './sim-kv-broadcast.ts'
import type { SimKvBroadcast } from './sim-kv-broadcast.ts'
import type { SimEngineConfig, SimEngineOptions } from './sim-options.ts'

export class SimReports {
  readonly #clock: Clock
  readonly #config: SimEngineConfig
  readonly #options: SimEngineOptions
  readonly #broadcast: SimKvBroadcast | null
  #observer: EngineObserver | null = null

  constructor(options: SimEngineOptions, config: SimEngineConfig) {
    this.#clock = options.clock
    this.#config = config
    this.#options = options
    const isWanted = options.kvEventsPort !== undefined && config.mode !== 'decode'
    this.#broadcast = isWanted ? (options.kvBroadcast ?? null) : null
  }

  get hasBroadcast(): boolean {
    return this.#broadcast !== null
  }

  /** The addresses for subscribers, for the worker's card. */
  async listen(): Promise<Partial<EngineConfig>> {
    if (this.#broadcast === null) return {}
    const { kvEventsPort = 0, kvReplayPort = null } = this.#options
    const { events, replay } = await this.#broadcast.listen({
      events: kvEventsPort,
      replay: kvReplayPort,
      ranks: this.#config.dataParallelSize,
    })
    return { runtimeData: { kvEventsEndpoints: events, kvReplayEndpoints: replay } }
  }

  observe(observer: EngineObserver): void {
    this.#observer = observer
  }

  kvEvents(dpRank: number, events: readonly SimKvEvent[]): void {
    if (this.#config.mode === 'decode') return
    if (this.#broadcast !== null) {
      const { blockTokens } = this.#config.scheduler
      const at = { epochMs: this.#clock.epochMs(), dpRank, blockTokens }
      this.#broadcast.publish(dpRank, kvBroadcastBatch(events, at, this.#options.kvEventsForm))
    }
    this.#observer?.kvEvents(dpRank, events)
  }

  load(report: LoadReport): void {
    this.#observer?.load(report)
  }

  async close(): Promise<void> {
    await this.#broadcast?.close()
  }
}
