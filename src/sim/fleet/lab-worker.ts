/**
 * A worker process of the laboratory: the real `Worker` with the simulated engine, on a clock that can die and with
 * a speed that can change.
 */
import type { WorkerId } from '../../base/index.ts'
import { createSchedulerConfig, SimEngine } from '../../simengine/index.ts'
import type { SchedulerOptions, SimStep, SimTiming } from '../../simengine/index.ts'
import type {
  DisaggregationMode,
  EngineConfig,
  EnginePace,
  WorkerCard,
} from '../../request/index.ts'
import { Worker } from '../../worker/index.ts'
import type { WorkerEvent, WorkerHealth } from '../../worker/index.ts'
import type { WorkerHandler } from '../../wire/index.ts'
import { ProcessClock } from '../clock/process-clock.ts'
import type { VirtualClock } from '../clock/virtual-clock.ts'
import type { SimDiscovery } from '../network/sim-discovery.ts'
import type { SimKvExchange, SimKvServer } from '../network/sim-kv.ts'
import type { SimNetwork } from '../network/sim-network.ts'
import { HandedOverEngine } from './handed-over-engine.ts'
import { WorkerCount } from './worker-count.ts'

interface LabWorkerOptions {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
  readonly model: string
  readonly engine: SchedulerOptions
  readonly startupMs: number
  /** The pace that its engine announces; null: none. */
  readonly pace: EnginePace | null
  /** The card has no batch size, and no load is reported. */
  readonly hidesLoad: boolean
  /** Seed of the output tokens, equal for all workers of a fleet. */
  readonly seed: number
  /** The engine publishes no KV events. */
  readonly isSilent: boolean
  /**
   * One timer for each step, so that every token arrives at its time; without it tokens may arrive together, later.
   */
  readonly isStepwise: boolean
  /** Null: the engine counts the time of a KV transfer itself. */
  readonly kv: SimKvExchange | null
  readonly clock: VirtualClock
  readonly network: SimNetwork
  readonly discovery: SimDiscovery
  readonly observe?: (event: WorkerEvent) => void
}

/** Prompts of public traces are longer than the simulated engine's default. */
const CONTEXT_LENGTH = 2 ** 30
const KV_STORE_TOKENS = 2 ** 22

export class LabWorker {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
  readonly count: WorkerCount
  readonly #options: LabWorkerOptions
  readonly #clock: ProcessClock
  readonly #worker: Worker
  readonly #engine: SimEngine
  readonly #handedOver: HandedOverEngine | null
  #kvServer: SimKvServer | null = null
  #slowness = 1
  #hasStopped = false

  constructor(options: LabWorkerOptions) {
    const { workerId, mode, model, kv, engine, seed } = options
    this.workerId = workerId
    this.mode = mode
    this.#options = options
    this.#clock = new ProcessClock(options.clock)
    this.count = new WorkerCount()
    this.#engine = new SimEngine({
      ...engine,
      timing: { kind: 'own', timing: this.#timing(engine) },
      contextLength: engine.maxModelLength ?? CONTEXT_LENGTH,
      clock: this.#clock,
      ...(options.isStepwise ? {} : { ahead: this.#clock }),
      onStep: (step) => this.#onStep(step),
      model,
      mode,
      seed,
      startupMs: options.startupMs,
    })
    this.#handedOver = kv === null ? null : new HandedOverEngine(this.#engine, KV_STORE_TOKENS)
    const inForce = this.#handedOver ?? this.#engine
    this.#worker = new Worker({
      engine: inForce,
      engineName: 'sim',
      mode,
      workerId,
      version: 'sim',
      clock: this.#clock,
      canary: null,
      describe: (config) => describedBy(config, options),
      limits: { requestsMax: Infinity },
      ...(options.observe === undefined ? {} : { observe: options.observe }),
    })
  }

  get isAlive(): boolean {
    return !this.#clock.isDead
  }

  get health(): WorkerHealth {
    return this.#worker.health()
  }

  /** KV bytes with a pin or an offer. */
  get heldKvBytes(): number {
    return (this.#handedOver?.kvBlocks.pinnedBytes ?? 0) + (this.#kvServer?.heldBytes ?? 0)
  }

  /** Rejects when the engine does not start; never settles when the process dies first. */
  start(): Promise<WorkerCard> {
    const { workerId, network, discovery, kv, isSilent } = this.#options
    const host = `worker-${workerId}`
    return this.#worker.start({
      open: () => {
        const all = network.listen(workerId, this.#handler())
        const uplink = this.#options.hidesLoad ? { ...all, publishLoad: () => undefined } : all
        this.#kvServer = kv === null ? null : kv.createServer(host, this.#clock)
        const ends =
          this.#kvServer === null || kv === null
            ? {}
            : { kv: { server: this.#kvServer, client: kv.createClient(this.#clock) } }
        return Promise.resolve({ host, port: 1, uplink, ...ends })
      },
      register: (card) =>
        discovery.register(isSilent ? { ...card, publishesKvEvents: false } : card),
    })
  }

  /** Like `kill -9`: it sends nothing more, its connections break, its entry in discovery ends with the lease. */
  kill(): void {
    if (!this.isAlive) return
    this.#clock.kill()
    this.#options.network.processDied(this.workerId)
    this.#options.discovery.processDied(this.workerId)
  }

  /** Everything that it computes from now on takes this many times as long. */
  slow(factor: number): void {
    this.#slowness = factor
    this.#engine.recast()
  }

  async stop(): Promise<void> {
    await this.#worker.stop()
    this.#hasStopped = true
  }

  /** Its engine is closed; the newest load report is from before. */
  get hasStopped(): boolean {
    return this.#hasStopped
  }

  /** Running and waiting requests of the engine, from its newest report. */
  get load(): { readonly running: number; readonly queued: number; readonly activeBlocks: number } {
    const sum = { running: 0, queued: 0, activeBlocks: 0 }
    for (const report of this.#worker.loadSnapshot()) {
      sum.running += report.runningRequests
      sum.queued += report.queuedRequests
      sum.activeBlocks += report.activeBlocks
    }
    return sum
  }

  /** The handler for the network; a silent worker sends no KV events. */
  #handler(): WorkerHandler {
    const worker = this.#worker
    const { isSilent, hidesLoad } = this.#options
    if (!isSilent && !hidesLoad) return worker
    return {
      serve: (request, reply) => worker.serve(request, reply),
      releaseKv: (offerId) => worker.releaseKv(offerId),
      ...(isSilent ? {} : { kvSnapshot: () => worker.kvSnapshot() }),
      ...(hidesLoad ? {} : { loadSnapshot: () => worker.loadSnapshot() }),
    }
  }

  #timing(engine: SchedulerOptions): SimTiming {
    const { timing } = createSchedulerConfig(engine)
    return {
      prefillMs: (batch) => this.#slowness * timing.prefillMs(batch),
      decodeMs: (batch) => this.#slowness * timing.decodeMs(batch),
    }
  }

  #onStep(step: SimStep<unknown>): void {
    this.count.step(step)
  }
}

function describedBy(
  engine: EngineConfig,
  { pace, hidesLoad }: Pick<LabWorkerOptions, 'pace' | 'hidesLoad'>,
): EngineConfig {
  const { maxNumSeqs: _, maxNumBatchedTokens: __, ...hidden } = engine
  return { ...(hidesLoad ? hidden : engine), ...(pace === null ? {} : { pace }) }
}
