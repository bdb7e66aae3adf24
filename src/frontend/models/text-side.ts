/**
 * The tokenizer and template of a model, which the first request that needs them loads. The workers may have different
 * copies of the files; one that can be read is enough.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { modelFilesKey } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelText } from '../../text/index.ts'

interface TextSideOptions {
  readonly load: (card: WorkerCard) => Promise<ModelText>
  /** The workers that serve now. */
  readonly cards: ReadonlyMap<WorkerId, WorkerCard>
  /** The error while no worker serves. */
  readonly notReady: () => BatonError
}

export class TextSide {
  readonly #options: TextSideOptions
  #loading: Promise<ModelText> | null = null
  #loaded: ModelText | null = null
  #fault: BatonError | null = null

  constructor(options: TextSideOptions) {
    this.#options = options
  }

  /** Null: it was not needed yet, or could not be loaded. */
  get loaded(): ModelText | null {
    return this.#loaded
  }

  /** Why it could not be loaded the last time; null: it was loaded, or not needed yet. */
  get fault(): BatonError | null {
    return this.#fault
  }

  /** Loaded once. A failure is reported to the caller, and the next request tries again. */
  text(): ModelText | Promise<ModelText> {
    if (this.#loaded !== null) return this.#loaded
    this.#loading ??= this.#load()
    return this.#loading
  }

  async #load(): Promise<ModelText> {
    try {
      this.#loaded = await this.#loadFromAny()
      this.#fault = null
      return this.#loaded
    } catch (thrown) {
      this.#loading = null
      this.#fault = BatonError.from(thrown, 'model.load_failed')
      throw this.#fault
    }
  }

  /** Rejects with the first reason. */
  async #loadFromAny(): Promise<ModelText> {
    const { load, cards, notReady } = this.#options
    const tried = new Set<string>()
    let fault: unknown = null
    for (const card of cards.values()) {
      const files = modelFilesKey(card)
      if (tried.has(files)) continue
      tried.add(files)
      try {
        return await load(card)
      } catch (thrown) {
        fault ??= thrown
      }
    }
    throw fault ?? notReady()
  }
}
