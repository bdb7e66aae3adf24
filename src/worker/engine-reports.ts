/**
 * What the engine says about its blocks and its load, on its way to the routers.
 *
 * Before the worker has an address nobody listens: blocks are counted all the same, so that the first snapshot has them.
 */
import type { EngineObserver } from '../engine/index.ts'
import type { KvEventBatch, LoadReport } from '../kv/index.ts'
import type { WorkerUplink } from '../wire/index.ts'
import { KvEventPublisher } from './kv-event-publisher.ts'
import { LoadPublisher } from './load-publisher.ts'

export class EngineReports {
  readonly #kvEvents: KvEventPublisher
  readonly #load: LoadPublisher
  #uplink: WorkerUplink | undefined
  #count = 0

  constructor() {
    this.#kvEvents = new KvEventPublisher((batch) => this.#uplink?.publishKvEvents(batch))
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
        if (withKvEvents) this.#kvEvents.publish(dpRank, events)
      },
      load: (report) => {
        this.#count++
        this.#load.publish(report)
      },
    }
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
