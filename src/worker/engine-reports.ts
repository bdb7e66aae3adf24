/**
 * What the engine says about its blocks and its load, on its way to the routers.
 *
 * What cannot be true is left out and told as a fault of the engine: a wrong event in a frame would cost the connection,
 * and with it every stream of the worker. Before the worker has an address there is no listener: blocks are counted all the same, so that the first snapshot has them.
 */
import { BatonError } from '../base/index.ts'
import { kvEventFault, loadReportFault, rankFault } from '../engine/index.ts'
import type { EngineObserver } from '../engine/index.ts'
import type { KvEvent, KvEventBatch, LoadReport } from '../kv/index.ts'
import type { WorkerUplink } from '../wire/index.ts'
import { KvEventPublisher } from './kv-event-publisher.ts'
import { LoadPublisher } from './load-publisher.ts'

/** Different faults that are reported at most. */
const FAULTS_TOLD_MAX = 64

export class EngineReports {
  readonly #kvEvents: KvEventPublisher
  readonly #load: LoadPublisher
  readonly #onFault: (error: BatonError) => void
  readonly #onUnavailable: (reason: BatonError | null) => void
  /** Faults that were told: an engine repeats its own with every step. */
  readonly #told = new Set<string>()
  #uplink: WorkerUplink | undefined
  #count = 0

  constructor(
    {
      onFault,
      onUnavailable,
    }: {
      readonly onFault: (error: BatonError) => void
      readonly onUnavailable: (reason: BatonError | null) => void
    },
    heldKv: ((dpRank: number) => readonly KvEvent[]) | null = null,
  ) {
    this.#onFault = onFault
    this.#onUnavailable = onUnavailable
    this.#kvEvents = new KvEventPublisher(
      (batch) => this.#uplink?.publishKvEvents(batch),
      heldKv === null ? null : (dpRank) => this.#soundOf(dpRank, heldKv),
    )
    this.#load = new LoadPublisher((report) => this.#uplink?.publishLoad(report))
  }

  /** How often the engine has said anything: a sign of life. */
  get count(): number {
    return this.#count
  }

  connect(uplink: WorkerUplink | undefined): void {
    this.#uplink = uplink
  }

  /** For the engine; `withKvEvents` is false for workers whose blocks are no router's business. */
  observer(withKvEvents: boolean): EngineObserver {
    return {
      kvEvents: (dpRank, events) => {
        this.#count++
        if (withKvEvents) this.#publish(dpRank, events)
      },
      load: (report) => {
        this.#count++
        const fault = loadReportFault(report)
        if (fault === null) this.#load.publish(report)
        else this.#tell('a load report', fault)
      },
      unavailable: (reason) => this.#onUnavailable(reason),
    }
  }

  #publish(dpRank: number, events: readonly KvEvent[]): void {
    const wrongRank = rankFault(dpRank)
    if (wrongRank !== null || !Array.isArray(events)) {
      this.#tell('KV events', wrongRank ?? 'not a list')
      return
    }
    const sound = this.#soundIn(events)
    if (sound.length > 0) this.#kvEvents.publish(dpRank, sound)
  }

  #soundIn(events: readonly KvEvent[]): KvEvent[] {
    return events.filter((event) => {
      const fault = kvEventFault(event)
      if (fault !== null) this.#tell('a KV event', fault)
      return fault === null
    })
  }

  /** What the engine says that it holds is foreign, too, and a snapshot crosses the same wire. */
  #soundOf(dpRank: number, heldKv: (dpRank: number) => readonly KvEvent[]): readonly KvEvent[] {
    try {
      const held = heldKv(dpRank)
      if (Array.isArray(held)) return this.#soundIn(held)
      this.#tell('a list of held blocks', 'not a list')
    } catch (thrown) {
      this.#tell('a list of held blocks', BatonError.from(thrown).message)
    }
    return []
  }

  #tell(what: string, fault: string): void {
    if (this.#told.size >= FAULTS_TOLD_MAX || this.#told.has(fault)) return
    this.#told.add(fault)
    const text = `the engine made ${what} that cannot be true and is left out: ${fault}`
    this.#onFault(new BatonError('backend.contract_violation', text))
  }

  snapshot(): readonly KvEventBatch[] {
    return this.#kvEvents.snapshot()
  }

  loadSnapshot(): readonly LoadReport[] {
    return this.#load.current()
  }

  drain(): void {
    this.#uplink?.drain()
  }

  close(): void {
    this.#uplink = undefined
  }
}
