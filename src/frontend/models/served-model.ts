/**
 * One version of a model as the frontend serves it: its workers, its router, its text side, and whether it can be served now.
 *
 * `cards` are the workers that agree with each other; who differs from them is in `refused`.
 */
import { BatonError } from '../../base/index.ts'
import type { Timer, WorkerId } from '../../base/index.ts'
import { modelDifferences, modelFactsOf } from '../../request/index.ts'
import type { EngineFeature, ModelDifference, ModelFacts, WorkerCard } from '../../request/index.ts'
import type { ModelRouter } from '../../router/index.ts'
import type { ModelText } from '../../text/index.ts'
import type { WorkerLinks } from './worker-links.ts'

/** A worker that carries the model's name and differs from those that serve it. */
export interface RefusedWorker {
  readonly card: WorkerCard
  readonly differences: readonly ModelDifference[]
}

export class ServedModel {
  readonly name: string
  /** Names it among the versions of the model; of the checksum of its first worker. */
  readonly version: string
  readonly router: ModelRouter
  readonly createdSeconds: number
  readonly #loadText: (card: WorkerCard) => Promise<ModelText>
  readonly #links: WorkerLinks
  readonly #isFurther: boolean
  readonly #needsText: boolean
  readonly #cards = new Map<WorkerId, WorkerCard>()
  readonly #refused = new Map<WorkerId, RefusedWorker>()
  /** Runs while the model has no worker. */
  forgetting: Timer | null = null
  /** What was served last; it stays when the last worker leaves, since router and text are made for it. */
  #facts: ModelFacts = {}
  /** Of all workers that there have been. */
  readonly #adapters = new Set<string>()
  #text: Promise<ModelText> | null = null
  #loaded: ModelText | null = null
  /** Why its tokenizer and template could not be loaded the last time; null: they could, or nobody has asked. */
  textFault: BatonError | null = null

  constructor(options: {
    name: string
    version: string
    router: ModelRouter
    createdSeconds: number
    loadText: (card: WorkerCard) => Promise<ModelText>
    links: WorkerLinks
    /** False: requests go on as they came where there is no text side. */
    needsText?: boolean
    /** There is an older version. */
    isFurther?: boolean
  }) {
    this.name = options.name
    this.version = options.version
    this.router = options.router
    this.createdSeconds = options.createdSeconds
    this.#loadText = options.loadText
    this.#links = options.links
    this.#isFurther = options.isFurther === true
    this.#needsText = options.needsText !== false
  }

  /** What the worker differs in from those that serve; then it is refused. Nothing: it serves from now on. */
  join(card: WorkerCard): readonly ModelDifference[] {
    const { workerId } = card
    const isAlone = this.#isAlone(card)
    const differences = isAlone ? [] : this.#differences(card)
    if (differences.length > 0) {
      this.#cards.delete(workerId)
      this.#refused.set(workerId, { card, differences })
      return differences
    }
    this.#refused.delete(workerId)
    this.#cards.set(workerId, card)
    this.#facts = { ...modelFactsOf(card), ...(isAlone ? {} : this.#facts) }
    this.forgetting?.cancel()
    this.forgetting = null
    for (const adapter of card.engine.loraAdapters ?? []) this.#adapters.add(adapter)
    return differences
  }

  leave(workerId: WorkerId): void {
    this.#cards.delete(workerId)
    this.#refused.delete(workerId)
  }

  /** In metrics. A model of one version is named as its clients name it. */
  get label(): string {
    return this.#isFurther ? `${this.name}@${this.version}` : this.name
  }

  /** The worker may serve beside those of this version. */
  agreesWith(card: WorkerCard): boolean {
    return this.#differences(card).length === 0
  }

  /** The card is of another model than router and text were made for, and no other worker is left. */
  isOutdatedBy(card: WorkerCard): boolean {
    return this.#isAlone(card) && this.#differences(card).length > 0
  }

  #isAlone(card: WorkerCard): boolean {
    return this.#cards.size === 0 || (this.#cards.size === 1 && this.#cards.has(card.workerId))
  }

  #differences(card: WorkerCard): readonly ModelDifference[] {
    return modelDifferences(this.#facts, modelFactsOf(card))
  }

  get cards(): readonly WorkerCard[] {
    return [...this.#cards.values()]
  }

  /** The oldest first, so that every frontend has the same order. */
  get refused(): readonly RefusedWorker[] {
    return [...this.#refused.values()].toSorted(
      (left, right) => (left.card.startedAtEpochMs ?? 0) - (right.card.startedAtEpochMs ?? 0),
    )
  }

  /** Undefined: not known, or refused. */
  cardOf(workerId: WorkerId): WorkerCard | undefined {
    return this.#cards.get(workerId)
  }

  /** Workers that requests can be sent to now. */
  get reachable(): readonly WorkerCard[] {
    return this.cards.filter(({ workerId }) => this.#links.isUp(workerId))
  }

  /** Workers that are registered and cannot be reached, with what went wrong; null: nothing yet. */
  get unreachable(): readonly { readonly card: WorkerCard; readonly fault: BatonError | null }[] {
    return this.cards
      .filter(({ workerId }) => !this.#links.isUp(workerId))
      .map((card) => ({ card, fault: this.#links.faultOf(card.workerId) }))
  }

  /** Ends what waits in its router. */
  close(): void {
    this.forgetting?.cancel()
    this.router.close()
  }

  get isReady(): boolean {
    return this.router.canServeRequests()
  }

  /** Requests can be sent, and they can be made into tokens: what whoever asks for the status wants to know. */
  get canAnswer(): boolean {
    return this.isReady && !this.#isTextMissing
  }

  /** With what it means for requests; null: nothing is wrong. */
  get textWarning(): string | null {
    if (this.textFault === null) return null
    const fails = `its tokenizer and template cannot be loaded: ${this.textFault.message}`
    return this.#isTextMissing
      ? `requests of ${this.name} fail, ${fails}`
      : `requests of ${this.name} are routed by their bytes, ${fails}`
  }

  get #isTextMissing(): boolean {
    return this.#needsText && this.textFault !== null
  }

  /** The shortest of all workers, as the request may run on any of them; the model's own when no worker says. */
  get contextLength(): number | undefined {
    let shortest: number | undefined
    for (const { engine } of this.#cards.values()) {
      const { contextLength } = engine
      if (contextLength === undefined) continue
      shortest = shortest === undefined ? contextLength : Math.min(shortest, contextLength)
    }
    return shortest ?? this.#loaded?.contextLength ?? undefined
  }

  /** What all workers honour; undefined when none of them says. */
  get features(): readonly EngineFeature[] | undefined {
    let common: readonly EngineFeature[] | undefined
    for (const { engine } of this.#cards.values()) {
      const { features } = engine
      if (features === undefined) continue
      common = common === undefined ? features : common.filter((name) => features.includes(name))
    }
    return common
  }

  /** The adapter that a client asks for by this model name; undefined for the model's own names. Throws 503. */
  adapterNamed(name: string | undefined): string | undefined {
    if (name === undefined || !this.#adapters.has(name)) return undefined
    const isThere = this.cards.some(({ engine }) => engine.loraAdapters?.includes(name) === true)
    if (isThere) return name
    const text = `No worker has the adapter \`${name}\` now. Please retry shortly.`
    throw new BatonError('backend.worker_unavailable', text, { data: { model: name } })
  }

  /** Numbers of an embedding, as the first worker that says so has it. */
  get embeddingLength(): number | undefined {
    for (const { engine } of this.#cards.values()) {
      if (engine.embeddingLength !== undefined) return engine.embeddingLength
    }
    return undefined
  }

  /** Loaded once; a failure is reported to the caller, and the next request tries again. */
  text(): ModelText | Promise<ModelText> {
    if (this.#loaded !== null) return this.#loaded
    this.#text ??= this.#load()
    return this.#text
  }

  async #load(): Promise<ModelText> {
    try {
      const [card] = this.#cards.values()
      if (card === undefined) throw this.notReady()
      this.#loaded = await this.#loadText(card)
      this.textFault = null
      return this.#loaded
    } catch (thrown) {
      this.#text = null
      this.textFault = BatonError.from(thrown, 'model.load_failed')
      throw this.textFault
    }
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
      // Anyone may ask: why, with its paths, is in the log and in the warnings of /health.
      return 'its tokenizer and template cannot be loaded'
    }
    const [refused] = this.refused
    if (this.#cards.size === 0) {
      return refused === undefined
        ? 'no worker of it is registered'
        : `its last worker has left, and worker ${refused.card.workerId} differs from it`
    }
    const { unreachable } = this
    const fault = unreachable.find((worker) => worker.fault !== null)
    if (fault !== undefined) {
      return `no connection to worker ${fault.card.workerId}: ${fault.fault?.message}`
    }
    if (unreachable.length > 0) return 'it is being connected to its workers'
    const modes = new Set([...this.#cards.values()].map((card) => card.mode))
    if (!modes.has('agg') && !modes.has('decode')) return 'a decode worker is missing'
    if (!modes.has('agg') && !modes.has('prefill')) return 'a prefill worker is missing'
    return 'its workers cannot take requests now'
  }
}
