/**
 * One model as the frontend serves it: its workers, its router, its text side, and whether it can be served now.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { EngineFeature, WorkerCard } from '../request/index.ts'
import type { ModelRouter } from '../router/index.ts'
import type { ModelText } from '../text/index.ts'

export class ServedModel {
  readonly name: string
  readonly router: ModelRouter
  readonly createdSeconds: number
  readonly #loadText: (card: WorkerCard) => Promise<ModelText>
  readonly #cards = new Map<WorkerId, WorkerCard>()
  /** Of all workers that there have been. */
  readonly #adapters = new Set<string>()
  #text: Promise<ModelText> | null = null
  #loaded: ModelText | null = null

  constructor(options: {
    name: string
    router: ModelRouter
    createdSeconds: number
    loadText: (card: WorkerCard) => Promise<ModelText>
  }) {
    this.name = options.name
    this.router = options.router
    this.createdSeconds = options.createdSeconds
    this.#loadText = options.loadText
  }

  join(card: WorkerCard): void {
    this.#cards.set(card.workerId, card)
    for (const adapter of card.engine.loraAdapters ?? []) this.#adapters.add(adapter)
  }

  leave(workerId: WorkerId): void {
    this.#cards.delete(workerId)
  }

  get cards(): readonly WorkerCard[] {
    return [...this.#cards.values()]
  }

  get isReady(): boolean {
    return this.router.canServeRequests()
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

  /** Loaded once; a failure is told to who asked, and the next request tries again. */
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
      return this.#loaded
    } catch (thrown) {
      this.#text = null
      throw BatonError.from(thrown, 'model.load_failed')
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
    if (this.#cards.size === 0) return 'no worker of it is registered'
    const modes = new Set([...this.#cards.values()].map((card) => card.mode))
    if (!modes.has('agg') && !modes.has('decode')) return 'a decode worker is missing'
    if (!modes.has('agg') && !modes.has('prefill')) return 'a prefill worker is missing'
    return 'its workers cannot take requests now'
  }
}
