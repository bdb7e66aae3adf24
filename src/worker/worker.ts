/**
 * A worker: an engine with an address, an entry in discovery and an orderly shutdown.
 *
 *   init → starting → running → draining → stopped
 *               └→ start-failed  (after cleanup has run)
 *
 * Owns the order of startup and shutdown, admission, and that `cleanup` runs exactly once. Sockets, files, signals
 * and the process belong to room `host`.
 */
import { assert, BatonError, InFlightSet, withDeadline } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { LoadReport } from '../kv/index.ts'
import type { EngineConfig, GenerateRequest, WorkerCard } from '../request/index.ts'
import type { KvSnapshot, ReplyPort, ServedRequest, WorkerHandler } from '../wire/index.ts'
import { Admission } from './admission.ts'
import { EngineAbsence } from './engine-absence.ts'
import { EngineLife } from './engine-life.ts'
import { EngineReports } from './engine-reports.ts'
import { KvHandOff } from './kv-hand-off.ts'
import type { ShutdownConfig } from './shutdown-budget.ts'
import { RequestsByRank } from './requests-by-rank.ts'
import { runShutdown } from './shutdown-sequence.ts'
import type { ShutdownReport } from './shutdown-sequence.ts'
import { StallWatch } from './stall-watch.ts'
import { createStanding } from './serving-state.ts'
import type { ServingState } from './serving-state.ts'
import { publishesKvEvents } from './worker-card.ts'
import type { WorkerEvent, WorkerState } from './worker-event.ts'
import type { WorkerHealth, WorkerStatus } from './worker-health.ts'
import { limitsOf, shutdownOf } from './worker-options.ts'
import type { WorkerLimits, WorkerOptions } from './worker-options.ts'
import type { WorkerAddress, WorkerPorts } from './worker-ports.ts'
import { WorkerSession } from './worker-session.ts'

const INERT: ServedRequest = { cancel: () => undefined }

export class Worker implements WorkerHandler {
  readonly #options: WorkerOptions
  readonly #limits: WorkerLimits
  readonly #admission: Admission
  readonly #sessions = new InFlightSet<WorkerSession>()
  readonly #inside: RequestsByRank
  readonly #handOff: KvHandOff
  readonly #engine: EngineLife
  readonly #reports: EngineReports
  readonly #stallWatch: StallWatch
  #state: WorkerState = 'init'
  #unhealthy: string | null = null
  #serving: ServingState | null = null
  /** As the engine has told since its start; null: as in its configuration. */
  #adapters: readonly string[] | null = null
  #starting: Promise<unknown> = Promise.resolve()
  #stopping: Promise<ShutdownReport> | null = null
  #quiescenceFailed = false
  readonly #absence = new EngineAbsence({
    observe: (event) => this.#observe(event),
  })
  readonly #hurried = new AbortController()

  constructor(options: WorkerOptions) {
    const limits = limitsOf(options)
    this.#options = options
    this.#inside = new RequestsByRank(options.mode)
    this.#reports = new EngineReports({
      engine: options.engine,
      clock: options.clock,
      mostOn: (dpRank) => this.#inside.mostOn(dpRank),
      onFault: (error) => this.#reportFault(error),
      onUnavailable: (reason) => this.#absence.set(reason),
      onAdapters: (names) => this.#setAdapters(names),
      onSign: () => this.#stallWatch.sign(),
    })
    this.#limits = limits
    this.#admission = new Admission(limits.requestsMax)
    this.#handOff = new KvHandOff({
      clock: options.clock,
      observe: (event) => this.#observe(event),
      source: () => options.engine.kvBlocks,
      leaseMs: limits.kvLeaseMs,
      pullTimeoutMs: limits.kvPullTimeoutMs,
      onFailure: limits.kvFailure,
    })
    this.#engine = new EngineLife({
      engine: options.engine,
      clock: options.clock,
      startTimeoutMs: limits.startTimeoutMs,
      describe: options.describe,
      onFault: (thrown) => this.#reportFault(thrown),
    })
    this.#stallWatch = new StallWatch({
      clock: options.clock,
      stallTimeoutMs: limits.stallTimeoutMs,
      onStalled: (stalledMs) => this.#onStalled(stalledMs),
    })
  }

  get workerId(): WorkerId {
    return this.#options.workerId
  }

  get state(): WorkerState {
    return this.#state
  }

  /** Known once the worker has an address. */
  get card(): WorkerCard | undefined {
    return this.#serving?.membership.card
  }

  /**
   * Rejects if the engine does not start, the address is not available, registration fails, or `stop` was called. In
   * the first three cases cleanup has run, and nothing is left to be stopped.
   */
  start(ports: WorkerPorts): Promise<WorkerCard> {
    assert(this.#state === 'init', 'a worker can be started only once')
    this.#setState('starting')
    const started = this.#bringUp(ports)
    this.#starting = started.catch(() => undefined)
    return started
  }

  serve(request: GenerateRequest, reply: ReplyPort): ServedRequest {
    const refusal = this.#admission.enter()
    if (refusal !== null) {
      reply.error(refusal)
      const { requestId } = request
      this.#observe({ kind: 'request-refused', requestId, error: refusal.toValue() })
      return INERT
    }
    const session = new WorkerSession({
      request,
      reply,
      engine: this.#options.engine,
      mode: this.#options.mode,
      clock: this.#options.clock,
      handOff: this.#handOff,
      stallWatch: this.#stallWatch,
      observe: (event) => this.#observe(event),
      features: this.#serving?.membership.card.engine.features ?? [],
      embeddingLength: this.#serving?.membership.card.engine.embeddingLength,
      cancelTimeoutMs: this.#limits.cancelTimeoutMs,
      onFreed: (freed) => this.#onFreed(freed, request),
    })
    this.#sessions.add(session)
    this.#inside.entered(request)
    void session.run()
    return session
  }

  releaseKv(offerId: string): void {
    this.#handOff.withdraw(offerId)
  }

  frontendLost(offerId: string): void {
    this.#handOff.frontendLost(offerId)
  }

  kvSnapshot(): KvSnapshot {
    return this.#reports.snapshot()
  }

  loadSnapshot(): readonly LoadReport[] {
    return this.#reports.loadSnapshot()
  }

  /** Null: not registered, so the worker gets no requests. */
  memberCard(): WorkerCard | null {
    const serving = this.#serving
    return serving?.membership.isMember === true ? serving.membership.card : null
  }

  health(): WorkerHealth {
    const isStalled = this.#stallWatch.isStalled
    const reason = isStalled
      ? 'the engine has stopped responding'
      : (this.#absence.text ?? this.#unhealthy ?? this.#unregistered)
    // During the grace time of an admin drain requests are still admitted, but the worker is not ready any more.
    const isDrained = (this.#serving?.admin.state ?? 'serving') !== 'serving'
    const isServing = this.#state === 'running' && this.#admission.isAccepting && !isDrained
    return {
      live: !isStalled && this.#state !== 'stopped' && this.#state !== 'start-failed',
      ready: isServing && reason === null,
      state: this.#state,
      inFlight: this.#admission.inFlight,
      openOffers: this.#handOff.openOffers,
      ...(reason === null ? {} : { reason }),
    }
  }

  status(): WorkerStatus {
    const lastError = this.#serving?.admin.lastError ?? this.#serving?.membership.fault?.message
    return {
      state: this.#stopping === null ? (this.#serving?.admin.state ?? 'starting') : 'stopping',
      inFlightRequests: this.#admission.inFlight,
      isRegistered: this.#serving?.membership.isMember ?? false,
      ...(lastError === undefined ? {} : { lastError }),
    }
  }

  /** Leaves discovery and, after the grace time, admits no requests; the process keeps running. */
  async drain(graceMsLeast = 0): Promise<WorkerStatus> {
    await this.#running().admin.drain(graceMsLeast)
    return this.status()
  }

  async resume(): Promise<WorkerStatus> {
    await this.#running().admin.resume()
    return this.status()
  }

  /**
   * The operator wants the worker in the fleet, or not. It only leaves discovery; running requests continue. Resolves
   * after the first attempt to tell discovery, which is told until that succeeds.
   */
  async setWanted(isWanted: boolean): Promise<void> {
    await this.#serving?.membership.setAbsent('unwanted', !isWanted)
  }

  async control(name: string, body: unknown): Promise<unknown> {
    return await this.#running().controls.run(name, body)
  }

  /** Shuts down in order and within one budget. Idempotent; waits for a start in progress. */
  stop(overrides: Partial<ShutdownConfig> = {}): Promise<ShutdownReport> {
    this.#stopping ??= this.#shutDown(shutdownOf(this.#options, overrides))
    return this.#stopping
  }

  /** Makes a shutdown in progress stop waiting; cleanup still gets its time. Before `stop`: no effect. */
  hurry(): void {
    if (this.#stopping !== null) this.#hurried.abort()
  }

  async #bringUp(ports: WorkerPorts): Promise<WorkerCard> {
    try {
      const config = await this.#engine.start(this.workerId)
      this.#refuseWhenStopping()
      const withKvEvents = publishesKvEvents(this.#options, config)
      this.#engine.observe(this.#reports.observer(config, withKvEvents))
      const address = await ports.open(config)
      this.#reports.connect(address.uplink)
      this.#handOff.connect(address.kv ?? {})
      const loraAdapters = this.#adapters ?? config.loraAdapters
      const now = loraAdapters === undefined ? config : { ...config, loraAdapters }
      const serving = this.#serveWith(ports, now, address)
      this.#serving = serving
      this.#refuseWhenStopping()
      // Opens before the address is published, so that no routed request is refused.
      this.#admission.open()
      await serving.membership.open()
      this.#refuseWhenStopping()
      this.#setState('running')
      this.#absence.joined(serving.membership)
      serving.canary?.start()
      return serving.membership.card
    } catch (thrown) {
      if (this.#stopping === null) {
        this.#admission.close()
        await this.#engine.cleanUpWithin(shutdownOf(this.#options).cleanupMs)
        this.#setState('start-failed')
      }
      throw BatonError.from(thrown, 'backend.unknown')
    }
  }

  #setAdapters(loraAdapters: readonly string[]): void {
    this.#adapters = loraAdapters
    const membership = this.#serving?.membership
    if (membership === undefined) return
    const { card } = membership
    membership.setCard({ ...card, engine: { ...card.engine, loraAdapters } })
  }

  #serveWith(ports: WorkerPorts, config: EngineConfig, address: WorkerAddress): ServingState {
    return createStanding({
      worker: this.#options,
      ports,
      config,
      address,
      admission: this.#admission,
      isRunning: () => this.#state === 'running',
      observe: (event) => this.#observe(event),
      onCanary: (error) => this.#onCanary(error),
    })
  }

  #onCanary(error: BatonError | null): void {
    if (error === null) this.#stallWatch.sign()
    this.#unhealthy = error === null ? null : `the engine failed its probe: ${error.message}`
    this.#observe(
      error === null
        ? { kind: 'canary', healthy: true }
        : { kind: 'canary', healthy: false, error: error.toValue() },
    )
  }

  async #shutDown(config: ShutdownConfig): Promise<ShutdownReport> {
    const wasInit = this.#state === 'init'
    await this.#endStarting(config.totalMs)
    const hasFailed = this.#state === 'start-failed'
    if (!hasFailed) this.#setState('draining')
    const serving = this.#serving
    this.#absence.close()
    serving?.membership.close()
    serving?.admin.stop()
    serving?.canary?.close()
    const { clock } = this.#options
    const report = await runShutdown(
      clock,
      config,
      {
        unregister:
          serving === null || serving.membership.isOut ? null : () => this.#unregister(serving),
        hurried: this.#hurried.signal,
        wasServing: serving !== null && !hasFailed,
        stopAdmission: () => this.#stopAdmission(),
        whenIdle: () => this.#admission.whenEmpty(),
        whenEngineDrained: () => this.#engine.drained,
        failInFlight: () =>
          this.#failInFlight('backend.engine_shutdown', 'the worker has shut down'),
        isKvQuiescent: () => this.#isKvQuiescent(),
        cleanup: () => (wasInit ? Promise.resolve() : this.#engine.cleanUpOnce()),
      },
      (stage) => this.#observe({ kind: 'stage', ...stage }),
    )
    serving?.membership.end()
    this.#stallWatch.close()
    this.#reports.close()
    this.#setState('stopped')
    return report
  }

  /** A start in progress may still succeed; one that hangs gets the time of the whole shutdown. */
  async #endStarting(totalMs: number): Promise<void> {
    const { clock } = this.#options
    const { kind } = await withDeadline(clock, totalMs, this.#starting, this.#hurried.signal)
    if (kind === 'done') return
    this.#engine.abandonStart()
    await this.#starting
  }

  async #unregister(serving: ServingState): Promise<void> {
    const error = await serving.membership.leave()
    if (error !== null) throw error
  }

  async #stopAdmission(): Promise<void> {
    this.#admission.close()
    this.#reports.drain()
    // Started here, awaited together with the requests in flight.
    this.#engine.drain()
    await Promise.resolve()
  }

  #isKvQuiescent(): boolean | null | 'skip' {
    const { mode, engine } = this.#options
    if (mode !== 'prefill' || this.#serving === null) return 'skip'
    if (this.#handOff.openOffers > 0) return false
    if (engine.isQuiescent === undefined) return true
    try {
      return engine.isQuiescent()
    } catch (thrown) {
      // If the engine's method throws, the state is unknown; KV may still be in transfer.
      if (!this.#quiescenceFailed) this.#reportFault(thrown)
      this.#quiescenceFailed = true
      return null
    }
  }

  #onFreed(session: WorkerSession, request: GenerateRequest): void {
    this.#sessions.delete(session)
    this.#inside.left(request)
    this.#admission.leave()
    this.#reports.requestLeft()
  }

  #onStalled(stalledMs: number): void {
    this.#observe({ kind: 'engine-stalled', inFlight: this.#sessions.size, stalledMs })
    this.#failInFlight(
      'backend.response_timeout',
      `the engine was silent for ${stalledMs} ms (--stall-timeout-seconds)`,
    )
  }

  #failInFlight(code: 'backend.engine_shutdown' | 'backend.response_timeout', why: string): void {
    for (const session of this.#sessions.values()) session.fail(code, why)
  }

  /** Why the worker is not registered although it should be; null: it is, or should not be. */
  get #unregistered(): string | null {
    const membership = this.#serving?.membership
    if (membership?.isMissing !== true) return null
    return membership.fault === null
      ? 'the worker is registering in discovery'
      : `the worker cannot register in discovery: ${membership.fault.message}`
  }

  #running(): ServingState {
    if (this.#serving === null || this.#state !== 'running') {
      throw new BatonError('request.conflict', `the worker is ${this.#state}`)
    }
    return this.#serving
  }

  #refuseWhenStopping(): void {
    if (this.#stopping === null) return
    throw new BatonError('backend.worker_draining', 'the worker was stopped while it started')
  }

  #setState(state: WorkerState): void {
    this.#state = state
    this.#observe({ kind: 'state', state })
  }

  #reportFault(thrown: unknown): void {
    this.#observe({
      kind: 'engine-fault',
      error: BatonError.from(thrown, 'backend.unknown').toValue(),
    })
  }

  #observe(event: WorkerEvent): void {
    this.#options.observe?.(event)
  }
}
