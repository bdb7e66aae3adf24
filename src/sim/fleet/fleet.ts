/**
 * A whole fleet in one process: workers, network, discovery, frontends, and the faults.
 */
import { BatonError, seededRandom, workerIdOf } from '../../base/index.ts'
import type { Timer } from '../../base/index.ts'
import { RoleController, roleLoadOf } from '../../router/index.ts'
import type { PeerNews, Role, RoleChange, RoleView } from '../../router/index.ts'
import { VirtualClock } from '../clock/virtual-clock.ts'
import { checkFaults } from '../faults/fault-schedule.ts'
import type { FaultEvent } from '../faults/fault-schedule.ts'
import { completeNetworkFaults, NetworkDice } from '../network/network-faults.ts'
import { SimDiscovery } from '../network/sim-discovery.ts'
import { SimKvExchange } from '../network/sim-kv.ts'
import { SimNetwork } from '../network/sim-network.ts'
import type { FleetConfig, FleetGroup } from './fleet-config.ts'
import { LabFrontend } from './lab-frontend.ts'
import { LabWorker } from './lab-worker.ts'

export const LAB_MODEL = 'sim'
const EXPLAIN_RECORDS = 64
const PEER_MS = 2
const ROLE_LOOK_MS = 1_000

interface Place {
  readonly group: FleetGroup
  worker: LabWorker
}

export class Fleet {
  readonly clock: VirtualClock
  readonly network: SimNetwork
  readonly discovery: SimDiscovery
  /** They exchange the routers' shared state (`FleetConfig.peerDelayMs`); each learns the rest from the workers. */
  readonly frontends: readonly LabFrontend[]
  /** All workers so far, including dead ones. */
  readonly workers: LabWorker[] = []
  migrations = 0
  /** The decisions of the role controller, with their times. */
  readonly roleChanges: (RoleChange & { readonly atMs: number })[] = []
  #roleWatch: Timer | null = null
  readonly #config: FleetConfig
  readonly #kv: SimKvExchange | null
  readonly #places: Place[] = []
  readonly #starting: Promise<unknown>[] = []

  constructor(config: FleetConfig) {
    const seed = config.seed ?? 0
    this.#config = config
    this.clock = new VirtualClock(config.settle === undefined ? {} : { settle: config.settle })
    const eventDelay =
      typeof config.eventDelayMs === 'number' ? { eventDelayMs: config.eventDelayMs } : {}
    const faults = completeNetworkFaults({ ...eventDelay, ...config.network })
    const dice = new NetworkDice(faults, seed)
    this.network = new SimNetwork(this.clock, dice)
    this.discovery = new SimDiscovery(this.clock, dice)
    this.#kv = config.handsKvOver === true ? new SimKvExchange(dice) : null
    const frontends = config.frontends ?? 1
    if (!Number.isInteger(frontends) || frontends < 1) {
      const text = `frontends: expected a whole number of at least 1, got ${frontends}`
      throw new BatonError('config.invalid', text)
    }
    this.frontends = Array.from({ length: frontends }, (_, index) => this.#createFrontend(index))
    for (const group of config.workers) {
      for (let i = 0; i < group.count; i++)
        this.#places.push({ group, worker: this.#startWorker(group) })
    }
    const deaths = (config.deaths ?? []).map((death) => ({ kind: 'death', ...death }) as const)
    const events = [...deaths, ...(config.faults ?? [])]
    checkFaults(events, this.#places.length)
    for (const event of events) this.clock.after(event.atMs, () => this.#befall(event))
  }

  /** The first, or the only one. */
  get frontend(): LabFrontend {
    return this.frontends[0] as LabFrontend
  }

  /** Starts the role controller, until `quiesce`. */
  watchRoles(): void {
    const { roles } = this.#config
    if (roles === undefined) return
    const controller = new RoleController(roles)
    const look = (): void => {
      const change = controller.decide(this.#roleView())
      if (change !== null) this.#changeRole(change)
      this.#roleWatch = this.clock.after(ROLE_LOOK_MS, look)
    }
    look()
  }

  /** Stops the role controller, whose timers would never let the clock end. */
  endRoles(): void {
    this.#roleWatch?.cancel()
  }

  /** Resolves when every worker without a start-up time is known and connected. */
  async begin(): Promise<void> {
    const atOnce = this.#places.filter(({ group }) => (group.startupMs ?? 0) === 0).length
    await this.clock.settle()
    const isKnown = (): boolean => this.frontends.every(({ plane }) => plane.workerCount >= atOnce)
    while (!isKnown() && this.clock.fireNext()) await this.clock.settle()
  }

  /** The frontend for the request with this index in the trace. */
  frontendOf(index: number): LabFrontend {
    return this.frontends[index % this.frontends.length]!
  }

  /** Runs until everything has ended: leases, deadlines, connections. */
  async quiesce(): Promise<void> {
    this.endRoles()
    this.network.dice.stop()
    for (const { worker } of this.#places) worker.slow(1)
    while (this.clock.fireNext()) if (this.clock.isUnsettled) await this.clock.settle()
  }

  #createFrontend(index: number): LabFrontend {
    const { seed = 0, router, migrationLimit, peerDelayMs = PEER_MS } = this.#config
    return new LabFrontend({
      clock: this.clock,
      random: seededRandom(seed + index),
      network: this.network,
      discovery: this.discovery,
      // Few decision records are kept, because each contains every candidate.
      router: { explainRecords: EXPLAIN_RECORDS, ...router },
      migrationLimit: migrationLimit ?? 3,
      onMigrated: () => {
        this.migrations += 1
      },
      ...(peerDelayMs === null || (this.#config.frontends ?? 1) < 2
        ? {}
        : { onPeerNews: (news) => this.#tellOthers(index, news, peerDelayMs) }),
    })
  }

  #tellOthers(from: number, news: PeerNews, delayMs: number): void {
    this.clock.after(delayMs, () => {
      for (const [index, frontend] of this.frontends.entries())
        if (index !== from) frontend.router.learn(news)
    })
  }

  #roleView(): RoleView {
    const { prefill, decode } = this.frontend.router.status()
    const changeable = (role: Role) =>
      this.#places
        .filter(({ group, worker }) => group.changesRole === true && worker.mode === role)
        .toSorted((left, right) => left.worker.load.running - right.worker.load.running)
        .map(({ worker }) => worker.workerId)
    return {
      nowMs: this.clock.nowMs(),
      prefill: roleLoadOf(prefill),
      decode: roleLoadOf(decode),
      changeable: { prefill: changeable('prefill'), decode: changeable('decode') },
    }
  }

  /** Like a worker process: it drains and ends, and then another worker starts in its place. */
  #changeRole(change: RoleChange): void {
    const place = this.#places.find(({ worker }) => worker.workerId === change.workerId)
    if (place === undefined) return
    this.roleChanges.push({ ...change, atMs: this.clock.nowMs() })
    const old = place.worker
    void old.stop().then(() => {
      if (place.worker === old)
        place.worker = this.#startWorker({ ...place.group, mode: change.to })
    })
  }

  #startWorker(group: FleetGroup): LabWorker {
    const { seed, eventDelayMs } = this.#config
    const worker = new LabWorker({
      workerId: workerIdOf(this.workers.length + 1),
      mode: group.mode,
      model: LAB_MODEL,
      engine: group.engine ?? {},
      startupMs: group.startupMs ?? 0,
      pace: group.pace ?? null,
      hidesLoad: group.hidesLoad ?? false,
      seed: seed ?? 0,
      isSilent: eventDelayMs === null,
      isStepwise: this.#config.stepwise ?? cutsReplies(this.#config),
      kv: this.#kv,
      clock: this.clock,
      network: this.network,
      discovery: this.discovery,
    })
    this.workers.push(worker)
    this.#starting.push(
      worker.start().catch((thrown: unknown) => {
        // An administrator may stop a worker that is still starting.
        if (BatonError.from(thrown).code !== 'backend.worker_draining') throw thrown
      }),
    )
    return worker
  }

  #befall(event: FaultEvent): void {
    const place = this.#places[event.worker]!
    const { worker, group } = place
    switch (event.kind) {
      case 'death':
        worker.kill()
        if (event.restartMs === undefined) return
        this.clock.after(event.restartMs, () => {
          if (place.worker === worker) place.worker = this.#startWorker(group)
        })
        return
      case 'slow':
        worker.slow(event.factor)
        this.clock.after(event.untilMs - event.atMs, () => worker.slow(1))
        return
      case 'partition':
        this.network.partition(worker.workerId, event.untilMs)
        return
      case 'break':
        this.network.breakConnections(worker.workerId)
        return
      case 'drain':
        if (!worker.isAlive) return
        void worker.stop()
        place.worker = this.#startWorker(group)
    }
  }
}

/** True when replies may end in the middle, so that earlier output must have been sent by then. */
function cutsReplies({
  leaving = 0,
  deaths = [],
  faults = [],
  network = {},
}: FleetConfig): boolean {
  return leaving > 0 || deaths.length > 0 || faults.length > 0 || (network.messageLoss ?? 0) > 0
}
