/**
 * Forwards the engine's reports about its blocks and load to the routers.
 *
 * Invalid reports are dropped and reported as a fault of the engine: an invalid event in a frame would make the peer
 * close the connection with every stream of the worker. Before the worker has an address there are no listeners;
 * blocks are recorded all the same, so that the first snapshot contains them.
 */
import { BatonError } from '../base/index.ts'
import type { Clock } from '../base/index.ts'
import { engineConfigFault, ownKvEvents, ownLoadReport, rankFault } from '../engine/index.ts'
import type { Engine, EngineObserver } from '../engine/index.ts'
import type { KvEvent, LoadReport } from '../kv/index.ts'
import type { EngineConfig } from '../request/index.ts'
import type { KvSnapshot, WorkerUplink } from '../wire/index.ts'
import { KvEventPublisher } from './kv-events/kv-event-publisher.ts'
import { LoadPublisher } from './load-publisher.ts'

/** Maximum number of distinct faults that are reported. */
const FAULTS_REPORTED_MAX = 64

interface EngineReportsOptions {
  readonly engine: Pick<Engine, 'heldKv' | 'hasOtherClients'>
  readonly clock: Clock
  /** The number of requests in the worker that may be on the rank. */
  readonly mostOn: (dpRank: number) => number
  readonly onFault: (error: BatonError) => void
  readonly onUnavailable: (reason: BatonError | null) => void
  readonly onAdapters: (names: readonly string[]) => void
  /** A report shows that the engine works. */
  readonly onSign: () => void
}

export class EngineReports {
  readonly #kvEvents: KvEventPublisher
  readonly #load: LoadPublisher
  readonly #onFault: (error: BatonError) => void
  readonly #onUnavailable: (reason: BatonError | null) => void
  readonly #onAdapters: (names: readonly string[]) => void
  readonly #onSign: () => void
  /** Faults reported so far, because an engine repeats the same fault with every step. */
  readonly #reportedFaults = new Set<string>()
  #uplink: WorkerUplink | undefined

  constructor(options: EngineReportsOptions) {
    const { engine, clock, mostOn, onFault, onUnavailable, onAdapters, onSign } = options
    const heldKv = engine.heldKv?.bind(engine) ?? null
    this.#onFault = onFault
    this.#onUnavailable = onUnavailable
    this.#onAdapters = onAdapters
    this.#onSign = onSign
    this.#kvEvents = new KvEventPublisher(
      (batch) => this.#uplink?.publishKvEvents(batch),
      heldKv === null ? null : (dpRank) => this.#soundOf(dpRank, heldKv),
    )
    this.#load = new LoadPublisher({
      clock,
      emit: (report) => this.#uplink?.publishLoad(report),
      mostOn: (dpRank) => (engine.hasOtherClients === true ? Infinity : mostOn(dpRank)),
    })
  }

  connect(uplink: WorkerUplink | undefined): void {
    this.#uplink = uplink
  }

  /**
   * The observer for the engine, whose config names its ranks; `withKvEvents` is false for workers whose blocks routers
   * do not use.
   */
  observer(config: EngineConfig, withKvEvents: boolean): EngineObserver {
    const { dataParallelStartRank = 0, dataParallelSize = 1 } = config
    const ranks = { dataParallelStartRank, dataParallelSize }
    return {
      kvEvents: (dpRank, events) => {
        this.#onSign()
        if (!withKvEvents) return
        const fault = rankFault(dpRank, ranks)
        if (fault === null) this.#publish(dpRank, events)
        else this.#reportFault('KV events', fault)
      },
      load: (report) => {
        const own = ownLoadReport(report)
        if (typeof own === 'string') return this.#reportFault('load reports', own)
        const fault = rankFault(own.dpRank, ranks)
        if (fault !== null) this.#reportFault('load reports', fault)
        else if (this.#load.publish(own)) this.#onSign()
      },
      // The engine may give any value as the reason; only null means that it is available.
      unavailable: (reason) =>
        this.#onUnavailable(reason === null ? null : BatonError.from(reason, 'backend.unknown')),
      loraAdapters: (names) => {
        const fault = engineConfigFault({ ...config, loraAdapters: names })
        if (fault !== null) this.#reportFault('names of LoRA adapters', fault.detail)
        else this.#onAdapters([...names])
      },
    }
  }

  #publish(dpRank: number, events: readonly KvEvent[]): void {
    const sound = ownKvEvents(events, (fault) => this.#reportFault('KV events', fault))
    if (sound.length > 0) this.#kvEvents.publish(dpRank, sound)
  }

  /** `heldKv` is third-party code, too, and a snapshot is sent over the same connection. */
  #soundOf(dpRank: number, heldKv: (dpRank: number) => readonly KvEvent[]): readonly KvEvent[] {
    const onFault = (fault: string): void => this.#reportFault('held blocks', fault)
    try {
      return ownKvEvents(heldKv(dpRank), onFault)
    } catch (thrown) {
      onFault(BatonError.from(thrown).message)
      return []
    }
  }

  #reportFault(what: string, fault: string): void {
    if (this.#reportedFaults.size >= FAULTS_REPORTED_MAX || this.#reportedFaults.has(fault)) return
    this.#reportedFaults.add(fault)
    const text = `the engine sent invalid ${what}, which are ignored: ${fault}`
    this.#onFault(new BatonError('backend.contract_violation', text))
  }

  snapshot(): KvSnapshot {
    return this.#kvEvents.snapshot()
  }

  loadSnapshot(): readonly LoadReport[] {
    return this.#load.current()
  }

  /** A request has left the engine. */
  requestLeft(): void {
    this.#load.requestLeft()
  }

  drain(): void {
    this.#uplink?.drain()
  }

  close(): void {
    this.#load.close()
    this.#uplink = undefined
  }
}
