/**
 * Composes the frontend of a process: HTTP server → frontend → router → request plane, with workers from
 * discovery.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import { Frontend } from '../../frontend/index.ts'
import type {
  FleetNote,
  FleetNews,
  FleetView,
  HttpHead,
  OpenRequest,
  StateStore,
} from '../../frontend/index.ts'
import { openBatches } from '../state/open-batches.ts'
import { openState } from '../state/open-state.ts'
import {
  createLogger,
  discoveryLog,
  fleetLog,
  frontendLog,
  FrontendMetrics,
  observeWithAll,
  SHARES_BY_KERNEL,
} from '../../host/index.ts'
import type { FrontendSiblings, Traces } from '../../host/index.ts'
import { HttpServer } from '../../network/index.ts'
import { openFilesMax, osClock, osRandom } from '../../os/index.ts'
import type { Discovery, DiscoveryWatch, LeaveReason } from '../../discovery/index.ts'
import type { FleetReports } from '../../network/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { createModelRouter } from '../../router/index.ts'
import type { RouterOptions } from '../../router/index.ts'
import { mediaOptionsOf } from './media-options.ts'
import { forwardingOf } from '../options/serve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { RoleKeeper } from './role-keeper.ts'
import { ConnectedWorkers } from './connected-workers.ts'
import { SilentWorkers } from './silent-workers.ts'
import { TextLoader } from './text-loader.ts'
import { PeerSharing } from '../peers/peer-sharing.ts'
import { SiblingAnswers } from '../peers/sibling-answers.ts'
import type { OpenKeys } from '../guard/open-keys.ts'
import type { OpenTraces } from './trace-settings.ts'
import { HttpGuard } from '../guard/http-guard.ts'
import { openHttpTls } from '../guard/http-tls.ts'
import { watchCertificates } from '../guard/watch-certificates.ts'
import { wireSecurity } from '../guard/wire-security.ts'
import { consolePage } from './console-page.ts'
import { BATON_VERSION } from './version.ts'
import { WorkerPlanes } from './worker-planes.ts'

interface FrontendStackOptions {
  readonly config: ServeConfig
  readonly router: RouterOptions
  readonly discovery: Discovery
  /** The other frontends behind the same port; absent: there are none. */
  readonly siblings?: FrontendSiblings | null
  /** The opened keys of `config.keys`; closed together with the stack. */
  readonly keys?: OpenKeys | null
  /** Null: tracing is off. */
  readonly openTraces?: OpenTraces | null
  /** 'local': workers in this process are called directly; 'tcp': workers are reached over TCP. */
  readonly plane: 'tcp' | 'local'
}

/** Block size in tokens for routing forwarded requests when the server's block size is not known. */
const ROUTED_BLOCK_TOKENS = 16
/** Besides an eighth of all. */
const OPEN_FILES_KEPT = 32

export class FrontendStack {
  readonly planes: WorkerPlanes
  /** Null: all that is served is forwarded without a tokenizer. */
  readonly #textLoader: TextLoader | null
  readonly #config: ServeConfig
  readonly #frontend: Frontend
  readonly #metrics: FrontendMetrics
  readonly #guard: HttpGuard
  readonly #keys: OpenKeys | null
  readonly #state: StateStore | undefined
  readonly #tls: ReturnType<typeof openHttpTls>
  #endCertificates: () => void = () => undefined
  readonly #connected = new ConnectedWorkers()
  readonly #discovery: Discovery
  readonly #logger: ReturnType<typeof createLogger>
  readonly #onFault: (error: unknown) => void
  readonly #sharesPort: boolean
  readonly #traces: Traces | null
  readonly #sharing = new PeerSharing()
  readonly #silent = new SilentWorkers({
    answers: (workerId, withinMs) => this.planes.answers(workerId, withinMs),
    onLeft: (workerId, reason) => this.#left(workerId, reason),
    onChanged: (workerId, isSilent) => this.#tellSilent(workerId, isSilent),
  })
  readonly #roles: RoleKeeper | null
  readonly #siblings: FrontendSiblings | null
  readonly #open: (head: HttpHead) => OpenRequest
  #http: HttpServer | null = null
  #watch: DiscoveryWatch | null = null
  /** No request is running or can start any more, so workers that leave now are not reported. */
  #isOver = false

  constructor(options: FrontendStackOptions) {
    const { config, discovery, router } = options
    const logger = createLogger(config.logLevel)
    this.#logger = logger
    this.#config = config
    this.#discovery = discovery
    this.#sharesPort =
      SHARES_BY_KERNEL && options.siblings !== null && options.siblings !== undefined
    this.#onFault = (error) => logger.error({ err: error }, 'internal error')
    const forwarding = forwardingOf(config, options.plane)
    this.planes = new WorkerPlanes({
      config,
      kind: options.plane,
      forwards: forwarding !== null,
      reports: this.#reports(),
      cards: () => this.#frontend.registry.models.flatMap(({ cards }) => cards),
      onTextProblem: (problem) => logger.warn(problem),
    })
    this.#metrics = new FrontendMetrics({
      routers: () =>
        this.#frontend.registry.models.map(
          ({ label, router }) => [label, router.status()] as const,
        ),
      ttftGoalMs: config.ttftGoal * 1000,
    })
    this.#guard = new HttpGuard(config, options.keys?.book ?? null, logger)
    this.#keys = options.keys ?? null
    this.#state = openState(config)
    const batches = openBatches(config)
    this.#tls = openHttpTls(config)
    this.#traces = this.#openTraces(options.openTraces ?? null)
    this.#frontend = new Frontend({
      middleware: this.#guard.middleware,
      keys: () => this.#guard.keys,
      clock: osClock,
      random: osRandom,
      version: BATON_VERSION,
      ...(this.#state === undefined ? {} : { state: this.#state }),
      ...(batches === undefined ? {} : { batches }),
      consolePage,
      createRouter: (model, version) =>
        createModelRouter({
          plane: this.planes.plane,
          clock: osClock,
          random: osRandom,
          config:
            forwarding?.always === true ? { blockSize: ROUTED_BLOCK_TOKENS, ...router } : router,
          onPeerNews: (news) => this.#sharing.tell(model, version, news),
          hasPeers: () => this.#sharing.hasPeers,
          listens: () => this.#sharing.isHeard,
        }),
      loadText: (card) => this.planes.texts.textOf(card),
      observer: observeWithAll([
        this.#metrics.observe,
        frontendLog(logger),
        ...(this.#traces === null ? [] : [this.#traces.observe]),
      ]),
      ...(this.#traces === null ? {} : { beginTrace: this.#traces.begin }),
      fleetObserver: observeWithAll([fleetLog(logger), (news) => this.#fleetChanged(news)]),
      reportsLinks: true,
      commandWorker: (card, command) => this.planes.command(card, command),
      onAdminNews: (news) => this.#sharing.tellAdmin(news),
      ...(forwarding === null ? {} : { forwarding, media: mediaOptionsOf(config) }),
      metrics: (accept) => this.#metrics.page(accept),
      encodeOffLoop: (...asked) => this.planes.texts.encode(...asked),
      limits: {
        migrationLimit: config.migrationLimit,
        migrationWaitMs: config.migrationWaitSeconds * 1000,
        bodyBytesMax: config.bodyLimit,
        modelForgetMs: config.modelForgetSeconds * 1000,
      },
    })
    this.#textLoader =
      forwardingOf(config, 'local')?.hasTokenizer === false
        ? null
        : new TextLoader(() => this.#frontend.registry.models)
    this.#roles = config.autoRoles ? this.#keepRoles() : null
    const { siblings = null } = options
    this.#siblings = siblings
    this.#keys?.news?.follow((text) =>
      this.note('keys', text === null ? null : { kind: 'keys', text }),
    )
    const answers = siblings === null ? null : new SiblingAnswers(this.#frontend, siblings)
    this.#open = (head) => (answers ?? this.#frontend).open(head)
  }

  /** Opens the port first, so that a port in use is reported before anything else is started. */
  async listen(): Promise<number> {
    const { host, port } = this.#config
    const openFiles = openFilesMax()
    this.#http = await HttpServer.listen({
      host,
      port,
      open: (head) => this.#open(head),
      sharesPort: this.#sharesPort,
      ...(this.#tls === null ? {} : { tls: this.#tls.now }),
      onFault: this.#onFault,
      connectionsPerAddress: this.#config.connectionsPerAddress,
      onTooManyConnections: (address) =>
        this.#logger.warn(
          { address },
          'connection refused: the client address has reached its limit of connections',
        ),
      ...(openFiles === null ? {} : { connectionsMax: connectionsWithin(openFiles) }),
      onFull: () =>
        this.#logger.warn(
          { openFiles },
          'connection refused: this process may open no more files and connections; raise the limit (ulimit -n)',
        ),
      streamLimits: { unsentBytesMax: this.#config.unsentLimit },
      onSlowReader: (reader) =>
        this.#logger.warn(reader, 'the client reads too slowly: its reply was cut off'),
    })
    this.#endCertificates = this.#watchCertificates()
    return this.#http.port
  }

  #watchCertificates(): () => void {
    this.#tls?.onChange(() => this.#tls && this.#http?.setTls(this.#tls.now))
    const files = [wireSecurity(this.#config).tls, this.#tls]
    return watchCertificates(files, this.#logger, (flag, text) => {
      this.note(`certificate ${flag}`, text === null ? null : { kind: 'certificate-age', text })
      if (text !== null) this.#logger.warn(text)
    })
  }

  async watch(): Promise<void> {
    const { registry } = this.#frontend
    registry.firstPicture.look()
    this.#watch = await this.#discovery.watch({
      joined: (card) => {
        this.#silent.joined(card.workerId)
        registry.workerJoined(card)
      },
      left: (workerId, reason) => this.#silent.left(workerId, reason),
      ...discoveryLog(this.#logger, registry.discovery),
      unanswered: (address, why) => this.#tellUnanswered(address, why),
    })
    registry.fleetFound()
    const nats = this.#discovery.peers?.() ?? null
    const ways = nats !== null ? [nats] : [this.#siblings, this.planes.peers]
    this.#sharing.start(
      ways.filter((way) => way !== null),
      this.#frontend,
      (topic, err) =>
        this.#logger.warn({ topic, err }, 'an invalid message of another frontend was ignored'),
    )
  }

  #left(workerId: WorkerId, reason: LeaveReason): void {
    // The router learns of it first, so that requests which the plane fails now are not retried on the same worker.
    this.#frontend.registry.workerLeft(workerId, reason)
    this.planes.workerLeft(workerId, reason)
  }

  #tellUnanswered(address: string, why: string | null): void {
    const text = `no worker answers at ${address}: ${why}`
    const note = why === null ? null : ({ kind: 'unanswered-address', text, why } as const)
    this.note(`unanswered ${address}`, note)
    if (why !== null) this.#logger.warn({ address, why }, 'no worker answers at an address')
  }

  #tellSilent(workerId: WorkerId, isSilent: boolean): void {
    const text = `worker ${workerId} cannot reach discovery but answers; it stays in use, and new frontends do not find it`
    this.note(`silent ${workerId}`, isSilent ? { kind: 'silent-worker', text } : null)
    if (isSilent) this.#logger.warn({ workerId }, 'a worker cannot reach discovery but answers')
  }

  /**
   * Resolves when the workers found at the start are known and their tokenizers are loaded; call `watch` first.
   */
  async untilSettled(): Promise<void> {
    await this.#frontend.registry.firstPicture.completed()
    // Requests for a model whose text cannot be loaded get the reason.
    await this.#textLoader?.load().catch(() => undefined)
  }

  /** Resolves when `workers` workers are connected and the tokenizer of their model is loaded. */
  async untilConnected(workers: number, deadlineMs: number): Promise<readonly WorkerCard[]> {
    await this.#connected.until(workers, deadlineMs)
    await this.#textLoader?.load()
    return [...(this.#watch?.cards.values() ?? [])]
  }

  /** Sets the `/health` warning about a missing part of the fleet; null removes it. */
  note(name: string, note: FleetNote | null): void {
    this.#frontend.registry.notes.set(name, note)
  }

  /** The current view of the fleet. */
  get fleet(): FleetView {
    return this.#frontend.fleet()
  }

  /**
   * Drains: no new requests; running ones may end within `graceMs`. Returns the number of requests that were
   * cut off.
   */
  async drain(graceMs: number): Promise<number> {
    this.#frontend.drain()
    await this.#frontend.stopBatches()
    const cutOff = (await this.#http?.close(graceMs, () => this.#frontend.cutOff())) ?? 0
    this.#isOver = true
    return cutOff
  }

  /** Ends all replies at once; their clients receive an error. */
  cutOff(): void {
    // The temporary discovery folder of `baton serve` is removed next, so discovery is closed now.
    this.#watch?.close()
    this.#silent.close()
    this.#frontend.cutOff()
  }

  async close(): Promise<void> {
    this.#isOver = true
    this.#watch?.close()
    this.#silent.close()
    // Batches are stopped first because their requests need the workers.
    await this.#frontend.stopBatches()
    await this.#http?.close(0)
    this.#frontend.close()
    await this.planes.plane.close()
    this.#metrics.close()
    this.#roles?.close()
    this.#textLoader?.close()
    await this.#traces?.close()
    await this.#keys?.close()
    this.#state?.close()
    this.#endCertificates()
    await this.planes.texts.close()
  }

  #keepRoles(): RoleKeeper {
    return new RoleKeeper({
      registry: this.#frontend.registry,
      ttftGoalMs: this.#config.ttftGoal * 1000,
      command: (card, command) => this.planes.command(card, command),
      logger: this.#logger,
    })
  }

  #fleetChanged(news: FleetNews): void {
    this.planes.tell(news)
    const isLocal = this.planes.local !== null
    if (news.kind === (isLocal ? 'workerJoined' : 'workerConnected')) this.#textLoader?.loadSoon()
  }

  #openTraces(open: OpenTraces | null): Traces | null {
    if (open === null) return null
    return open({
      decisionsOf: (requestId) => this.#frontend.registry.decisionsOf(requestId)?.decisions ?? [],
      onProblem: (problem) => this.#logger.warn({ problem }, 'traces could not be sent'),
    })
  }

  #reports(): FleetReports {
    return {
      onKvEvents: (workerId, batch) => this.#frontend.registry.kvEvents(workerId, batch),
      wantsKvSnapshot: (workerId, dpRank) =>
        this.#frontend.registry.wantsKvSnapshot(workerId, dpRank),
      onLoad: (workerId, report) => this.#frontend.registry.load(workerId, report),
      onPeer: (payload) =>
        this.#sharing.attempt('over a worker', () => this.planes.peers?.take(payload)),
      onConnected: (workerId, clockOffsetMs) => {
        this.#connected.add(workerId)
        // This is the first connection to the other frontends, where the way to them leads over workers.
        if (this.#connected.count === 1) this.#sharing.ask()
        this.#frontend.registry.workerReachable(workerId, clockOffsetMs)
      },
      onCaughtUp: (workerId) => this.#frontend.registry.firstPicture.settled(workerId),
      onDisconnected: (workerId, reason) => {
        this.#connected.delete(workerId)
        this.#unreachable(workerId, reason)
      },
      onConnectFailed: (workerId, reason) => this.#unreachable(workerId, reason),
      onFault: (error) => this.#onFault(error),
    }
  }

  #unreachable(workerId: WorkerId, reason: BatonError): void {
    if (!this.#isOver) this.#frontend.registry.workerUnreachable(workerId, reason)
  }
}

/** Leaves some open files for workers, discovery, keys and modules: without any, each of these would fail. */
function connectionsWithin(openFiles: number): number {
  return Math.max(openFiles - OPEN_FILES_KEPT - Math.floor(openFiles / 8), 1)
}
