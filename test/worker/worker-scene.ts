/** Set-up of the worker's unit tests. */
import { workerIdOf } from '../../src/base/index.ts'
import type { BatonError } from '../../src/base/index.ts'
import { SimEngine } from '../../src/simengine/index.ts'
import type { Engine, EngineObserver } from '../../src/engine/index.ts'
import type { SimEngineOptions } from '../../src/simengine/index.ts'
import type { GenerateRequest, WorkerCard } from '../../src/request/index.ts'
import { VirtualClock } from '../../src/sim/index.ts'
import { Worker } from '../../src/worker/worker.ts'
import type { WorkerEvent } from '../../src/worker/worker-event.ts'
import type { WorkerOptions } from '../../src/worker/worker-options.ts'
import type { WorkerPorts } from '../../src/worker/worker-ports.ts'
import type { ServedRequest } from '../../src/wire/index.ts'
import { RecordedReply } from './recorded-reply.ts'

export function requestOf(
  requestId: string,
  change: Partial<GenerateRequest> = {},
): GenerateRequest {
  return {
    requestId,
    model: 'sim',
    tokenIds: Uint32Array.from({ length: 40 }, (_, i) => i + 10),
    sampling: {},
    stop: { maxTokens: 8 },
    output: {},
    eosTokenIds: [2],
    routing: {},
    ...change,
  }
}

/** A worker with a simulated engine in virtual time, and all its events. */
export class Scene {
  readonly clock = new VirtualClock()
  readonly events: WorkerEvent[] = []
  readonly calls: string[] = []
  readonly engine: SimEngine
  readonly worker: Worker
  registerFails: BatonError | null = null
  unregisterFails: BatonError | null = null
  /** The observer that the worker gave to the engine. */
  observer: EngineObserver | null = null

  constructor(sim: Partial<SimEngineOptions> = {}, options: Partial<WorkerOptions> = {}) {
    this.engine = new SimEngine({
      clock: this.clock,
      model: 'sim',
      mode: options.mode ?? 'agg',
      allowRequestFaults: true,
      ...sim,
    })
    this.worker = new Worker({
      engine: this.#counted(this.engine),
      engineName: 'sim',
      mode: 'agg',
      workerId: workerIdOf(7),
      version: '0.0.0',
      clock: this.clock,
      observe: (event) => this.events.push(event),
      canary: null,
      ...options,
    })
  }

  get ports(): WorkerPorts {
    return {
      open: () => {
        this.calls.push('open')
        return Promise.resolve({ host: '127.0.0.1', port: 4711 })
      },
      register: (card: WorkerCard) => {
        this.calls.push(`register ${card.workerId}`)
        if (this.registerFails !== null) return Promise.reject(this.registerFails)
        return Promise.resolve({
          update: () => Promise.resolve(),
          close: () => {
            this.calls.push('unregister')
            if (this.unregisterFails !== null) return Promise.reject(this.unregisterFails)
            return Promise.resolve()
          },
        })
      },
    }
  }

  start(): Promise<WorkerCard> {
    return this.clock.runUntil(this.worker.start(this.ports))
  }

  serve(request: GenerateRequest): { reply: RecordedReply; handle: ServedRequest } {
    const reply = new RecordedReply()
    return { reply, handle: this.worker.serve(request, reply) }
  }

  kinds(): string[] {
    return this.events.map((event) => (event.kind === 'state' ? event.state : event.kind))
  }

  stages(): string[] {
    return this.events.flatMap((event) =>
      event.kind === 'stage' ? [`${event.stage} ${event.reason}`] : [],
    )
  }

  /** The same engine; records which methods of the contract are called. */
  #counted(engine: SimEngine): Engine {
    const { calls } = this
    return new Proxy<Engine>(engine, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...given: unknown[]): unknown => {
          if (name === 'abort') calls.push(`abort ${String(given[0])}`)
          else if (name !== 'generate') calls.push(String(name))
          if (name === 'observe') this.observer = given[0] as EngineObserver
          return Reflect.apply(value, target, given)
        }
      },
    })
  }
}
