/**
 * The frontend of a process, put together: HTTP server → frontend → router → request plane, fed by discovery.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import { Frontend } from '../frontend/index.ts'
import {
  createLogger,
  FrontendLog,
  FrontendMetrics,
  HttpServer,
  LocalRequestPlane,
  loadModelText,
  observeWithAll,
  osClock,
  osRandom,
  TcpRequestPlane,
  TokenizerThread,
} from '../host/index.ts'
import type { Discovery, DiscoveryWatch, FleetReports } from '../host/index.ts'
import type { RequestPlane, WorkerCard } from '../request/index.ts'
import { createModelRouter } from '../router/index.ts'
import type { RouterOptions } from '../router/index.ts'
import type { ModelText } from '../text/index.ts'
import type { ServeConfig } from './serve-config.ts'
import { BATON_VERSION } from './version.ts'
import { wireSecurity } from './wire-security.ts'

interface FrontendStackOptions {
  readonly config: ServeConfig
  readonly router: RouterOptions
  readonly discovery: Discovery
  /** Workers of this process are reached by plain calls, others over TCP. */
  readonly plane: 'tcp' | 'local'
}

export class FrontendStack {
  readonly localPlane: LocalRequestPlane | null
  readonly #config: ServeConfig
  readonly #frontend: Frontend
  readonly #plane: RequestPlane
  readonly #tcpPlane: TcpRequestPlane | null
  readonly #metrics: FrontendMetrics
  readonly #tokenizerThread = new TokenizerThread()
  readonly #connected = new Set<WorkerId>()
  readonly #discovery: Discovery
  readonly #onFault: (error: unknown) => void
  #http: HttpServer | null = null
  #watch: DiscoveryWatch | null = null
  #whenConnected: (() => void) | null = null

  constructor(options: FrontendStackOptions) {
    const { config, discovery, router } = options
    const logger = createLogger(config.logLevel)
    this.#config = config
    this.#discovery = discovery
    this.#onFault = (error) => logger.error({ err: error }, 'fault of ours')
    const reports = this.#reports()
    this.#tcpPlane =
      options.plane === 'tcp'
        ? new TcpRequestPlane({
            ...reports,
            ...wireSecurity(config),
            software: `baton ${BATON_VERSION}`,
          })
        : null
    this.localPlane = options.plane === 'local' ? new LocalRequestPlane(reports) : null
    this.#plane = (this.#tcpPlane ?? this.localPlane) as RequestPlane
    this.#metrics = new FrontendMetrics({
      routers: () =>
        this.#frontend.registry.models.map(({ name, router }) => [name, router.status()] as const),
    })
    this.#frontend = new Frontend({
      clock: osClock,
      random: osRandom,
      version: BATON_VERSION,
      createRouter: () =>
        createModelRouter({
          plane: this.#plane,
          clock: osClock,
          random: osRandom,
          config: router,
        }),
      loadText: textLoader(config),
      observer: observeWithAll([this.#metrics, new FrontendLog(logger)]),
      metrics: () => this.#metrics.text(),
      encodeOffLoop: (card, text, options) =>
        this.#tokenizerThread.encode(card.engine.modelPath ?? config.model, text, options),
      limits: { migrationLimit: config.migrationLimit },
    })
  }

  /** Takes the port first, so that a port in use is known before anything else is started. */
  async listen(): Promise<number> {
    const { host, port, bodyLimit } = this.#config
    this.#http = await HttpServer.listen({
      host,
      port,
      handle: (request) => this.#frontend.handle(request),
      refuse: (request, error) => this.#frontend.refuse(request, error),
      onFault: this.#onFault,
      bodyBytesMax: bodyLimit,
    })
    return this.#http.port
  }

  async watch(): Promise<void> {
    const { registry } = this.#frontend
    this.#watch = await this.#discovery.watch({
      joined: (card) => {
        registry.workerJoined(card)
        this.#tcpPlane?.workerJoined(card)
        this.localPlane?.tellAll(card.workerId)
      },
      left: (workerId, reason) => {
        // First the router, so that what the plane now fails is not sent there again.
        registry.workerLeft(workerId, reason)
        this.#connected.delete(workerId)
        this.#tcpPlane?.workerLeft(workerId, reason)
      },
    })
  }

  /** Resolves when so many workers are connected and their model's text is loaded. */
  async untilConnected(workers: number, deadlineMs: number): Promise<readonly WorkerCard[]> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        const message = `${this.#connected.size} of ${workers} workers are connected after ${deadlineMs / 1000} s`
        reject(new BatonError('backend.worker_unavailable', message))
      }, deadlineMs)
      // Who was told to end while it waits need not wait for this.
      timer.unref()
      this.#whenConnected = () => {
        if (this.#connected.size < workers) return
        clearTimeout(timer)
        resolve()
      }
      this.#whenConnected()
    })
    await Promise.all(this.#frontend.registry.models.map(async (model) => await model.text()))
    return [...(this.#watch?.cards.values() ?? [])]
  }

  /** Orderly: nothing new, what runs ends within the budget. Returns how many requests were cut off. */
  async drain(graceMs: number): Promise<number> {
    this.#frontend.drain()
    return (await this.#http?.close(graceMs)) ?? 0
  }

  async close(): Promise<void> {
    this.#watch?.close()
    await this.#http?.close(0)
    this.#frontend.close()
    await this.#plane.close()
    this.#metrics.close()
    await this.#tokenizerThread.close()
  }

  #reports(): FleetReports {
    return {
      onKvEvents: (workerId, batch) => this.#frontend.registry.kvEvents(workerId, batch),
      onLoad: (workerId, report) => this.#frontend.registry.load(workerId, report),
      onConnected: (workerId) => {
        this.#connected.add(workerId)
        this.#whenConnected?.()
      },
      onDisconnected: (workerId) => this.#connected.delete(workerId),
      onFault: (error) => this.#onFault(error),
    }
  }
}

/** The model's text from where the worker says that the model is; this machine's `--model` when it does not say. */
function textLoader(config: ServeConfig): (card: WorkerCard) => Promise<ModelText> {
  return (card) => loadModelText(card.engine.modelPath ?? config.model)
}
