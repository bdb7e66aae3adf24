/**
 * A whole system in one process and in virtual time: the real frontend, router and workers with simulated engines
 * and without a network. Tests observe the effect of a request field at the engine.
 */
import { settle } from '../../src/os/index.ts'
import { seededRandom, workerIdOf } from '../../src/base/index.ts'
import { SimEngine } from '../../src/simengine/index.ts'
import type { SimEngineOptions } from '../../src/simengine/index.ts'
import { Frontend } from '../../src/frontend/index.ts'
import type {
  FrontendEvent,
  FrontendObserver,
  RequestEnd,
  RequestFacts,
} from '../../src/frontend/index.ts'
import { LocalRequestPlane } from '../../src/network/index.ts'
import type { DisaggregationMode, GenerateRequest } from '../../src/request/index.ts'
import { createModelRouter } from '../../src/router/index.ts'
import type { ModelRouter, RouterOptions } from '../../src/router/index.ts'
import { VirtualClock } from '../../src/sim/index.ts'
import { Worker } from '../../src/worker/index.ts'
import { Answer, storyteller } from './scripted-frontend.ts'

interface FleetWorker {
  readonly id: number
  readonly mode?: DisaggregationMode
  readonly taints?: readonly string[]
  readonly sim?: Partial<SimEngineOptions>
}

/** A request that reached an engine, and the worker of that engine. */
interface Served {
  readonly worker: string
  readonly request: GenerateRequest
}

export class SmallFleet {
  readonly clock = new VirtualClock({ settle })
  /** In the order in which the engines started them. */
  readonly served: Served[] = []
  readonly ends: (RequestEnd & RequestFacts)[] = []
  readonly events: FrontendEvent[] = []
  onEvent: FrontendObserver | null = null
  readonly frontend: Frontend
  readonly #plane: LocalRequestPlane
  #router: ModelRouter | null = null

  private constructor(router: RouterOptions) {
    const { clock } = this
    const random = seededRandom(1)
    this.#plane = new LocalRequestPlane({
      onKvEvents: (workerId, batch) => this.frontend.registry.kvEvents(workerId, batch),
      onLoad: (workerId, report) => this.frontend.registry.load(workerId, report),
    })
    this.frontend = new Frontend({
      clock,
      random,
      createRouter: () =>
        (this.#router = createModelRouter({ plane: this.#plane, clock, random, config: router })),
      loadText: () => Promise.resolve(storyteller()),
      observer: (event, request) => {
        this.events.push(event)
        this.onEvent?.(event, request)
        if (event.kind === 'ended') this.ends.push({ ...request, ...event })
      },
    })
  }

  static async start(
    workers: readonly FleetWorker[],
    router: RouterOptions = {},
  ): Promise<SmallFleet> {
    const fleet = new SmallFleet(router)
    for (const worker of workers) await fleet.#join(worker)
    return fleet
  }

  get router(): ModelRouter {
    if (this.#router === null) throw new Error('no worker has joined')
    return this.#router
  }

  /** Sends a chat, or a request to the endpoint `path`; advances time until the reply is complete. */
  async ask(
    fields: Record<string, unknown>,
    headers: Record<string, string> = {},
    path = '/v1/chat/completions',
  ): Promise<Answer> {
    const before = this.ends.length
    const answer = await this.clock.runUntil(this.send(fields, headers, path))
    while (this.ends.length === before && this.clock.fireNext()) await this.clock.settle()
    return answer
  }

  /** Like `ask`, but time does not advance. */
  async send(
    fields: Record<string, unknown>,
    headers: Record<string, string> = {},
    path = '/v1/chat/completions',
  ): Promise<Answer> {
    const usual = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 }
    const body = path === '/v1/chat/completions' ? { ...usual, ...fields } : fields
    return new Answer(
      await this.frontend.handle({
        method: 'POST',
        path,
        query: '',
        headers: { 'content-type': 'application/json', ...headers },
        body: new TextEncoder().encode(JSON.stringify(body)),
        signal: new AbortController().signal,
      }),
    )
  }

  async #join({ id, mode = 'agg', taints, sim }: FleetWorker): Promise<void> {
    const { clock } = this
    const workerId = workerIdOf(id)
    const engine = new SimEngine({
      clock,
      mode,
      model: 'storyteller',
      contextLength: 4096,
      tokenRange: Uint32Array.from({ length: 100 }, (_, i) => 500 + i),
      scriptFor: (request) => {
        this.served.push({ worker: workerId, request })
        return undefined
      },
      ...sim,
    })
    const worker: Worker = new Worker({
      engine,
      engineName: 'sim',
      mode,
      workerId,
      version: '0',
      clock,
      canary: null,
      ...(taints === undefined ? {} : { taints }),
    })
    await clock.runUntil(
      worker.start({
        open: () =>
          Promise.resolve({
            host: '127.0.0.1',
            port: 1,
            uplink: this.#plane.addWorker(workerId, worker),
          }),
        register: (card) => {
          this.frontend.registry.workerJoined(card)
          return Promise.resolve({
            update: () => Promise.resolve(),
            close: () => Promise.resolve(),
          })
        },
      }),
    )
  }
}
