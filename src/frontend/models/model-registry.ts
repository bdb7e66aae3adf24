/**
 * Which workers serve which model, learned from the cards of workers that join and leave and from the connections to
 * them. Passes the fleet's events on to the router of the worker's model, and chooses the version for a request.
 *
 * A model's router knows the workers that agree with each other and can be reached. A worker that differs
 * becomes a version of its own if it has a weight, or if all others belong to versions with a weight; otherwise it is
 * refused until those that it differs from have left or are outnumbered (`agreeing-workers.ts`, `serving-changes.ts`).
 * A model without workers is forgotten after a time.
 */
import type { BatonError, WorkerId } from '../../base/index.ts'
import { servedModelNames } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { FleetObserver, PeerNews } from '../../router/index.ts'
import { DiscoveryState } from './discovery-state.ts'
import { decisionsOf } from './found-decisions.ts'
import type { FoundDecisions } from './found-decisions.ts'
import { FirstPicture } from './first-picture.ts'
import type { FleetNewsObserver } from './fleet-news.ts'
import { FleetNotes } from './fleet-notes.ts'
import { LeavingModels } from './leaving-models.ts'
import { silencedModel } from './model-errors.ts'
import { versionOf } from './model-family.ts'
import type { ModelFamily } from './model-family.ts'
import { ModelNames } from './model-names.ts'
import { ParkedWorkers } from './parked-workers.ts'
import type { ModelRegistryOptions, VersionWish } from './registry-options.ts'
import { ServingChanges } from './serving-changes.ts'
import { shareOf } from './session-share.ts'
import { ServedModel } from './served-model.ts'
import { WorkerLinks } from './worker-links.ts'

export class ModelRegistry implements FleetObserver {
  readonly #options: ModelRegistryOptions
  readonly #links: WorkerLinks
  readonly #observer: FleetNewsObserver
  /** Which model a name stands for. */
  readonly names: ModelNames
  readonly #leaving: LeavingModels
  /** Workers that an administrator has drained: they have left the fleet and can be brought back. */
  readonly parked: ParkedWorkers
  readonly discovery: DiscoveryState
  readonly firstPicture = new FirstPicture()
  readonly notes = new FleetNotes()
  readonly #changes: ServingChanges
  /** Including refused workers. */
  readonly #ofWorker = new Map<WorkerId, ServedModel>()

  constructor(options: ModelRegistryOptions) {
    this.#options = options
    this.#links = new WorkerLinks(options.reportsLinks === true)
    this.#observer = options.fleetObserver ?? (() => undefined)
    this.names = new ModelNames({
      clock: options.clock,
      forgetMs: options.modelForgetMs,
      isOutOfReach: (workerId) => this.#links.isOutOfReach(workerId),
      isStarting: () => !this.firstPicture.isComplete,
    })
    this.#leaving = new LeavingModels({
      clock: options.clock,
      mainOf: (name) => this.names.own(name)?.main,
      onReleased: (workerId) => this.#tellRefused(workerId),
    })
    this.#changes = new ServingChanges({
      clock: options.clock,
      waitMs: options.modelForgetMs,
      firstPicture: this.firstPicture,
      leaving: this.#leaving,
      replace: (model, card) => this.#replace(model, card),
      rejoin: (cards) => this.#rejoin(cards),
    })
    this.parked = new ParkedWorkers()
    this.discovery = new DiscoveryState(options.clock)
  }

  workerJoined(card: WorkerCard): void {
    const [name] = servedModelNames(card.engine)
    if (name === undefined) return
    const { workerId } = card
    this.parked.joined(workerId)
    const before = this.#ofWorker.get(workerId)
    if (before !== undefined && before.name !== name) {
      this.workerLeft(workerId, 'serves another model now')
    }
    const family = this.names.own(name) ?? this.names.create(name)
    const fitting = family.versions.find((version) => version.agreesWith(card))
    const outdated = fitting === undefined ? family.outdatedBy(card) : undefined
    const others = outdated?.registered.filter((other) => other.workerId !== workerId) ?? []
    const model =
      fitting ?? (outdated ? this.#replace(outdated, card) : this.#versionFor(family, card))
    if (before !== undefined && before !== model) this.#leaveVersion(before, workerId)
    this.#ofWorker.set(workerId, model)
    this.#leaving.workerJoined(card)
    this.#admit(model, card, before === undefined)
    for (const { name: taken, owner, other } of this.names.newConflicts()) {
      this.#observer({ kind: 'nameTaken', model: other, name: taken, owner })
    }
    this.#rejoin(others)
    this.#changes.settle(family)
    this.#changes.reconsider(model)
  }

  workerLeft(workerId: WorkerId, reason: string): void {
    this.#links.forgetFault(workerId)
    this.firstPicture.settled(workerId)
    this.#leaving.workerLeft(workerId, reason)
    const model = this.#ofWorker.get(workerId)
    if (model === undefined) return
    this.#ofWorker.delete(workerId)
    this.names.release(workerId)
    const wasServing = model.cardOf(workerId) !== undefined
    model.leave(workerId)
    model.router.fleet.workerLeft(workerId, reason)
    this.#observer({ kind: 'workerLeft', workerId, model: model.name, reason })
    // A worker that left in order, or whose address another has, frees its place at once. One that died may come
    // back soon, so workers that differ from it wait.
    const isFinal = reason === 'closed' || reason === 'replaced'
    const family = this.#familyOf(model)
    if (model.cards.length > 0) {
      this.#changes.settle(family, isFinal)
      this.#changes.reconsider(model, isFinal)
      return
    }
    const isReplaced = model.refused.length > 0 || family.hasWorkersBesides(model)
    if (wasServing && isFinal && isReplaced) this.#forget(model)
    else this.#forgetLater(model)
  }

  /**
   * An authenticated connection to the worker exists; possibly before its card is known. `clockOffsetMs`: by how much its
   * clock is at least ahead of the one here.
   */
  workerReachable(workerId: WorkerId, clockOffsetMs = 0): void {
    this.#links.up(workerId, clockOffsetMs)
    this.#leaving.workerReachable(workerId)
    this.names.reconsider(workerId)
    const model = this.#ofWorker.get(workerId)
    const card = model?.cardOf(workerId)
    if (model === undefined || card === undefined) return
    model.connected()
    model.router.fleet.workerJoined(card)
    this.#observer({ kind: 'workerConnected', workerId, model: model.name })
  }

  /** The connection was lost, or another attempt to connect failed. */
  workerUnreachable(workerId: WorkerId, fault: BatonError): void {
    const model = this.#ofWorker.get(workerId)
    const isNews = this.#links.down(workerId, model === undefined ? null : fault)
    this.names.reconsider(workerId)
    if (model !== undefined && isNews) {
      this.#leaving.workerUnreachable(workerId, fault.message)
      model.router.fleet.workerLeft(workerId, fault.message)
      if (model.cardOf(workerId) !== undefined) {
        this.#observer({ kind: 'workerUnreachable', workerId, model: model.name, fault })
      }
      this.#changes.reconsider(model)
    }
    this.firstPicture.settled(workerId)
  }

  /** Discovery has listed all current workers. */
  fleetFound(): void {
    for (const family of this.families) this.#changes.unite(family)
    for (const model of this.models) this.#changes.switch(model)
    const cards = this.models.flatMap((model) => model.cards)
    this.firstPicture.found(cards.map(({ workerId }) => workerId))
  }

  kvEvents: FleetObserver['kvEvents'] = (workerId, batch) => {
    this.#ofWorker.get(workerId)?.router.fleet.kvEvents(workerId, batch)
  }

  cacheCleared(workerId: WorkerId): void {
    this.#ofWorker.get(workerId)?.router.fleet.cacheCleared?.(workerId)
  }

  wantsKvSnapshot(workerId: WorkerId, dpRank: number): boolean {
    const fleet = this.#ofWorker.get(workerId)?.router.fleet
    return fleet?.wantsKvSnapshot?.(workerId, dpRank) ?? false
  }

  load: FleetObserver['load'] = (workerId, report) => {
    this.#ofWorker.get(workerId)?.router.fleet.load(workerId, report)
    this.#leaving.load(workerId, report)
  }

  /** Applies a message of another frontend about a model; ignored for a model that is not served here. */
  learn(model: string, version: string, news: PeerNews): void {
    const versions = this.names.own(model)?.versions ?? []
    const meant = versions.find((each) => each.version === version)
    // Cards that leave facts out may agree with each other although their versions have different names; then
    // there is one version.
    const only = versions.length === 1 ? versions[0] : undefined
    ;(meant ?? only)?.router.learn(news)
  }

  /** Every version of every model. */
  get models(): readonly ServedModel[] {
    return this.families.flatMap(({ versions }) => versions)
  }

  get families(): readonly ModelFamily[] {
    return [...this.names.families]
  }

  /** Takes effect at once; refused workers of the version are checked again. */
  setWeight(model: string, version: string, weight: number): void {
    const family = this.names.own(model) ?? this.names.create(model)
    family.setWeight(version, weight)
    const refused = family.versions.flatMap((each) => each.refused.map(({ card }) => card))
    this.#rejoin(refused.filter((card) => versionOf(card) === version))
    this.#changes.settle(family)
  }

  /** 0: the version gets only the requests for one of its workers. */
  weightOf(version: ServedModel): number {
    return this.#familyOf(version).weightOf(version)
  }

  /**
   * The version for a request; requests of one session get the same. Without a name: the only model. Throws 404
   * for an unknown model, 503 for one that cannot be served.
   */
  ready(name: string | undefined, wish: VersionWish = {}): ServedModel {
    const family = this.names.familyOf(name)
    const { sessionId, workerId } = wish
    const several = family.versions.length > 1
    const draw = !several ? 0 : sessionId === undefined ? this.#random() : shareOf(sessionId)
    const asked = workerId === undefined ? undefined : this.#ofWorker.get(workerId)
    const picked = asked?.name === family.name ? asked : family.pick(draw, name)
    if (picked === undefined) throw silencedModel(this.names.known(name).name)
    const model = this.#leaving.insteadOf(picked)
    if (!model.isReady) throw model.notReady()
    return model
  }

  decisionsOf(requestId: string): FoundDecisions | null {
    return decisionsOf([...this.models, ...this.#leaving.models], requestId)
  }

  close(): void {
    for (const family of this.families) family.uniting?.cancel()
    this.names.close()
    for (const model of this.models) model.close()
    this.#leaving.close()
  }

  #random(): number {
    return this.#options.random.next()
  }

  /** The version for a worker that agrees with none: a new one, or the one without a weight, where it is refused. */
  #versionFor(family: ModelFamily, card: WorkerCard): ServedModel {
    const { unweighted } = family
    const version = versionOf(card)
    if (unweighted !== undefined && !family.mayBegin(card, version)) return unweighted
    const created = this.#create(family, version, family.versions.length > 0)
    family.versions.push(created)
    return created
  }

  /** The worker belongs to another version now. */
  #leaveVersion(before: ServedModel, workerId: WorkerId): void {
    if (this.#leaving.has(before)) return
    before.leave(workerId)
    before.router.fleet.workerLeft(workerId, 'belongs to another version now')
    if (!this.#familyOf(before).versions.includes(before)) return
    if (before.cards.length === 0 && before.refused.length === 0) this.#forgetLater(before)
  }

  #admit(model: ServedModel, card: WorkerCard, isNew: boolean): void {
    const { workerId } = card
    const differences = model.join(card)
    if (differences.length > 0) {
      this.names.release(workerId)
      model.router.fleet.workerLeft(workerId, 'differs from the workers that serve')
      this.firstPicture.refused(workerId)
      this.#tellRefused(workerId)
      return
    }
    this.#links.admitted(workerId)
    this.names.claim(card, this.#familyOf(model))
    if (this.#links.isUp(workerId)) model.router.fleet.workerJoined(card)
    this.#observer({ kind: 'workerJoined', card, model: model.name, isNew })
  }

  /** Not as long as it may get requests: it is told, and its connection closed. */
  #tellRefused(workerId: WorkerId): void {
    const model = this.#ofWorker.get(workerId)
    const refused = model?.refusedOf(workerId)
    if (model === undefined || refused === undefined || this.#leaving.hasWorker(workerId)) return
    this.#observer({ kind: 'workerRefused', ...refused, model: model.name })
  }

  #forgetLater(model: ServedModel): void {
    const { clock, modelForgetMs } = this.#options
    model.forgetting ??= clock.after(modelForgetMs, () => this.#forget(model))
  }

  /** Refused workers take over the name. */
  #forget(model: ServedModel): void {
    const { choice } = model
    this.#remove(model)
    const left = this.names.own(model.name)?.versions ?? []
    if (left.length === 0 && model.refused.length === 0) {
      this.#observer({ kind: 'modelForgotten', model: model.name })
    }
    this.#rejoin(choice?.cards ?? [])
  }

  #rejoin(cards: readonly WorkerCard[]): void {
    for (const card of cards) this.workerJoined(card)
  }

  /** For other workers, which need a router and a text side of their own. */
  #replace(model: ServedModel, card: WorkerCard): ServedModel {
    const family = this.#familyOf(model)
    const next = this.#create(family, versionOf(card), model.isFurther)
    family.replace(model, next)
    this.#leaving.add(model)
    return next
  }

  #remove(model: ServedModel): void {
    model.close()
    const family = this.#familyOf(model)
    family.remove(model)
    if (family.versions.length === 0) this.names.remove(family)
  }

  #familyOf({ name }: ServedModel): ModelFamily {
    return this.names.own(name) ?? this.names.create(name)
  }

  #create({ name, adapters }: ModelFamily, version: string, isFurther: boolean): ServedModel {
    const { createRouter, clock, loadText, forwarding } = this.#options
    return new ServedModel({
      name,
      version,
      router: createRouter(name, version),
      createdSeconds: Math.floor(clock.epochMs() / 1000),
      loadText,
      links: this.#links,
      needsText: forwarding?.always !== true,
      isFurther,
      adapters,
    })
  }
}
