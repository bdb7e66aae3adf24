/**
 * One version of a model as the frontend serves it: its workers, its router, its text side, and whether it can
 * be served now.
 *
 * `cards` are the workers that agree with each other; workers that differ are in `refused`.
 */
import { BatonError } from '../../base/index.ts'
import type { Timer, WorkerId } from '../../base/index.ts'
import { modelDifferences, modelFactsOf } from '../../request/index.ts'
import type { EngineFeature, ModelDifference, ModelFacts, WorkerCard } from '../../request/index.ts'
import { hasNoPair } from '../../router/index.ts'
import type { ModelRouter } from '../../router/index.ts'
import type { ModelText } from '../../text/index.ts'
import { olderFirst, WorkersByFacts } from './agreeing-workers.ts'
import { factsOfCards } from './facts-of-cards.ts'
import type { FactsOfCards } from './facts-of-cards.ts'
import { oldestFirst, servingChoice, someServe } from './serving-choice.ts'
import type { ServingChoice } from './serving-choice.ts'
import { TextSide } from './text-side.ts'
import type { WorkerLinks } from './worker-links.ts'

/** A worker with the model's name that differs from those that serve it. */
export interface RefusedWorker {
  readonly card: WorkerCard
  readonly differences: readonly ModelDifference[]
}

export class ServedModel {
  readonly name: string
  /** Identifies it among the versions of the model; from the checksum of its first worker. */
  readonly version: string
  readonly router: ModelRouter
  readonly createdSeconds: number
  readonly #text: TextSide
  readonly #links: WorkerLinks
  readonly isFurther: boolean
  readonly #needsText: boolean
  readonly #cards = new Map<WorkerId, WorkerCard>()
  /** Of those whose cards have one. */
  readonly #weights = new Map<WorkerId, number>()
  /** Facts of all cards together that every request needs; null: the cards have changed. */
  #ofCards: FactsOfCards | null = null
  readonly #refused = new Map<WorkerId, RefusedWorker>()
  /** Serving and refused ones. */
  readonly #byFacts = new WorkersByFacts()
  /** A connection to one of its workers existed. */
  #wasConnected = false
  /** Runs while the model has no worker, or while it leaves (`leaving-models.ts`). */
  forgetting: Timer | null = null
  /** Runs while other workers should serve. */
  switching: Timer | null = null
  /**
   * All facts that its workers have stated so far. They are kept when a worker leaves, because router and text side
   * were made for them.
   */
  #facts: ModelFacts = {}
  /** Of all workers so far, in all versions. */
  readonly #adapters: Set<string>

  constructor(options: {
    name: string
    version: string
    router: ModelRouter
    createdSeconds: number
    loadText: (card: WorkerCard) => Promise<ModelText>
    links: WorkerLinks
    /** False: requests are forwarded unchanged when there is no text side. */
    needsText?: boolean
    /** True when there is an older version. */
    isFurther?: boolean
    adapters: Set<string>
  }) {
    this.name = options.name
    this.version = options.version
    this.router = options.router
    this.createdSeconds = options.createdSeconds
    this.#text = new TextSide({
      load: options.loadText,
      cards: this.#cards,
      notReady: () => this.notReady(),
    })
    this.#links = options.links
    this.isFurther = options.isFurther === true
    this.#needsText = options.needsText !== false
    this.#adapters = options.adapters
  }

  /**
   * Returns the differences to the serving workers, for which the worker is refused. Empty: it serves from now
   * on.
   */
  join(card: WorkerCard): readonly ModelDifference[] {
    const { workerId } = card
    this.#byFacts.set(card)
    const isAlone = !this.hasOthers(card)
    const differences = isAlone ? [] : this.#differences(card)
    if (differences.length > 0) {
      this.#dropCard(workerId)
      this.#refused.set(workerId, { card, differences })
      return differences
    }
    this.#refused.delete(workerId)
    this.#cards.set(workerId, card)
    if (card.weight === undefined) this.#weights.delete(workerId)
    else this.#weights.set(workerId, card.weight)
    this.#ofCards = null
    if (this.#links.isUp(workerId)) this.#wasConnected = true
    this.#facts = { ...modelFactsOf(card), ...(isAlone ? {} : this.#facts) }
    this.forgetting?.cancel()
    this.forgetting = null
    for (const adapter of card.engine.loraAdapters ?? []) this.#adapters.add(adapter)
    return differences
  }

  leave(workerId: WorkerId): void {
    this.#dropCard(workerId)
    this.#refused.delete(workerId)
    this.#byFacts.delete(workerId)
  }

  #dropCard(workerId: WorkerId): void {
    this.#cards.delete(workerId)
    this.#weights.delete(workerId)
    this.#ofCards = null
  }

  /** The label in metrics. For a model with one version it is the name that clients use. */
  get label(): string {
    return this.isFurther ? `${this.name}@${this.version}` : this.name
  }

  /** True when the worker may serve in this version. */
  agreesWith(card: WorkerCard): boolean {
    return this.#differences(card).length === 0
  }

  /**
   * True when the worker agrees with all others that serve, but router and text side were made for what workers have
   * stated that are not left.
   */
  isOutdatedBy(card: WorkerCard): boolean {
    const facts = modelFactsOf(card)
    if (modelDifferences(this.#facts, facts).length === 0) return false
    const isOther = (workerId: WorkerId): boolean =>
      workerId !== card.workerId && this.#cards.has(workerId)
    return this.#byFacts.kinds.every(
      (kind) => !someServe(kind, isOther) || modelDifferences(kind.facts, facts).length === 0,
    )
  }

  /** True when another worker serves. */
  hasOthers({ workerId }: WorkerCard): boolean {
    return this.#cards.size > (this.#cards.has(workerId) ? 1 : 0)
  }

  /** Serving and refused, oldest first. */
  get registered(): readonly WorkerCard[] {
    return oldestFirst(this.#byFacts.kinds)
  }

  /** Null: those workers serve that should. */
  get choice(): ServingChoice | null {
    if (this.#refused.size === 0) return null
    const isServing = (workerId: WorkerId): boolean => this.#cards.has(workerId)
    return servingChoice(this.#byFacts, isServing, this.#links.unreachable)
  }

  #differences(card: WorkerCard): readonly ModelDifference[] {
    return modelDifferences(this.#facts, modelFactsOf(card))
  }

  get cards(): readonly WorkerCard[] {
    return this.#together.cards
  }

  get #together(): FactsOfCards {
    this.#ofCards ??= factsOfCards([...this.#cards.values()])
    return this.#ofCards
  }

  /** Oldest first, so that every frontend has the same order. */
  get refused(): readonly RefusedWorker[] {
    return [...this.#refused.values()].toSorted(({ card: left }, { card: right }) =>
      olderFirst(left, right),
    )
  }

  /** Undefined: not known, or refused. */
  cardOf(workerId: WorkerId): WorkerCard | undefined {
    return this.#cards.get(workerId)
  }

  refusedOf(workerId: WorkerId): RefusedWorker | undefined {
    return this.#refused.get(workerId)
  }

  connected(): void {
    this.#wasConnected = true
  }

  /** No connection could be made to any of its workers, so there is nothing that could come back. */
  get isOutOfReach(): boolean {
    return !this.#wasConnected && this.unreachable.every(({ fault }) => fault !== null)
  }

  /** Workers that requests can be sent to now. */
  get reachable(): readonly WorkerCard[] {
    return this.cards.filter(({ workerId }) => this.#links.isUp(workerId))
  }

  /** By how much the worker's clock is at least ahead of the one here; 0: it may be right. */
  clockOffsetMs(workerId: WorkerId): number {
    return this.#links.clockOffsetMs(workerId)
  }

  /** Registered workers that cannot be reached, with the error; null: no error yet. */
  get unreachable(): readonly { readonly card: WorkerCard; readonly fault: BatonError | null }[] {
    return this.cards
      .filter(({ workerId }) => !this.#links.isUp(workerId))
      .map((card) => ({ card, fault: this.#links.faultOf(card.workerId) }))
  }

  /** Ends the requests that wait in its router. */
  close(): void {
    this.stopTimers()
    this.router.close()
  }

  stopTimers(): void {
    this.forgetting?.cancel()
    this.switching?.cancel()
  }

  get isReady(): boolean {
    return this.router.canServeRequests()
  }

  /** True when requests can be tokenised and sent; used for status reports. */
  get canAnswer(): boolean {
    return this.isReady && !this.#isTextMissing
  }

  /** The warning of `/health`, with the effect on requests; null: the text side is loaded. */
  get textWarning(): string | null {
    const { fault } = this.#text
    if (fault === null) return null
    const fails = `because its tokenizer and template cannot be loaded: ${fault.message}`
    return this.#isTextMissing
      ? `requests of ${this.name} fail ${fails}`
      : `requests of ${this.name} are routed by their bytes ${fails}`
  }

  get #isTextMissing(): boolean {
    return this.#needsText && this.#text.fault !== null
  }

  /**
   * The smallest of all workers, because a request may run on any of them; the model's own when no worker states
   * one.
   */
  get contextLength(): number | undefined {
    return this.#together.contextLength ?? this.#text.loaded?.contextLength ?? undefined
  }

  /** Features that all workers have; undefined when no worker states any. */
  get features(): readonly EngineFeature[] | undefined {
    return this.#together.features
  }

  /** The largest that one of its workers has; undefined when none has any. */
  get weight(): number | undefined {
    let largest: number | undefined
    for (const weight of this.#weights.values()) largest = Math.max(largest ?? 0, weight)
    return largest
  }

  /** How many workers serve. */
  get size(): number {
    return this.#cards.size
  }

  get hasRefused(): boolean {
    return this.#refused.size > 0
  }

  /** Some of the generating workers state their features and some do not: these get no request that needs features. */
  get statesFeaturesInPart(): boolean {
    const { silentWorkers, statesFeatures } = this.#together
    return statesFeatures && silentWorkers.length > 0
  }

  /** Workers of Baton 0.1 that do not state the features of their engine. */
  get silentWorkers(): readonly WorkerId[] {
    return this.#together.silentWorkers
  }

  /**
   * The adapter that a client requests with this model name; undefined for the model's own name and its aliases, also
   * if an adapter has the same name. Throws 503.
   */
  adapterNamed(name: string | undefined): string | undefined {
    if (name === undefined || !this.#adapters.has(name) || this.#isNameOfModel(name)) {
      return undefined
    }
    const isThere = this.reachable.some(
      ({ engine }) => engine.loraAdapters?.includes(name) === true,
    )
    if (isThere) return name
    const text = `No worker has the adapter \`${name}\` now. Please retry shortly.`
    throw new BatonError('backend.worker_unavailable', text, { data: { model: name } })
  }

  #isNameOfModel(name: string): boolean {
    return name === this.name || this.#together.aliases.has(name)
  }

  /** Adapters that nobody can request, because the model itself has the name. */
  get hiddenAdapters(): readonly { readonly workerId: WorkerId; readonly name: string }[] {
    return this.cards.flatMap(({ workerId, engine: { loraAdapters = [] } }) =>
      loraAdapters.filter((name) => this.#isNameOfModel(name)).map((name) => ({ workerId, name })),
    )
  }

  /** True when one of its workers has this alias or adapter. */
  hasFurtherName(name: string): boolean {
    return (
      this.#together.aliases.has(name) ||
      this.cards.some(({ engine }) => engine.loraAdapters?.includes(name) === true)
    )
  }

  /** Dimensions of an embedding, from the first worker that states it. */
  get embeddingLength(): number | undefined {
    for (const { engine } of this.#cards.values()) {
      if (engine.embeddingLength !== undefined) return engine.embeddingLength
    }
    return undefined
  }

  /** Loaded once. A failure is reported to the caller, and the next request tries again. */
  text(): ModelText | Promise<ModelText> {
    return this.#text.text()
  }

  notReady(): BatonError {
    return new BatonError(
      'backend.worker_unavailable',
      `Model \`${this.name}\` is not ready to serve requests yet: ${this.notReadyReason()}. Please retry shortly.`,
      { data: { model: this.name } },
    )
  }

  notReadyReason(): string {
    if (this.isReady && this.#isTextMissing) {
      // This answer is public; the reason, which may contain paths, is in the log and in the warnings of /health.
      return 'its tokenizer and template cannot be loaded'
    }
    const [refused] = this.refused
    if (this.#cards.size === 0) {
      return refused === undefined
        ? 'no worker of this model is registered'
        : `its last worker has left, and worker ${refused.card.workerId} differs from it`
    }
    const { unreachable } = this
    const fault = unreachable.find((worker) => worker.fault !== null)
    if (fault !== undefined) {
      return `no connection to worker ${fault.card.workerId}: ${fault.fault?.message}`
    }
    if (unreachable.length > 0) return 'the connections to its workers are being established'
    const modes = new Set([...this.#cards.values()].map((card) => card.mode))
    if (!modes.has('agg') && !modes.has('decode')) return 'there is no decode worker'
    if (!modes.has('agg') && !modes.has('prefill')) return 'there is no prefill worker'
    if (hasNoPair(this.router.status().disaggregation.unpaired)) {
      return 'no prefill worker has a decode worker in its domain (required topology)'
    }
    return 'its workers cannot accept requests now'
  }
}
