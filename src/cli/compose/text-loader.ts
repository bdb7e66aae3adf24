/**
 * Loads the tokenizers and templates of all served models before a request needs them, and retries while one of them
 * cannot be loaded: `/ready` keeps requests away from this frontend then, so no request would retry.
 */
import { isPassedThrough } from '../../frontend/index.ts'
import type { ModelRegistry } from '../../frontend/index.ts'

const RETRY_MS = 5_000

export class TextLoader {
  readonly #models: () => ModelRegistry['models']
  #retry: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(models: () => ModelRegistry['models']) {
    this.#models = models
  }

  /** Rejects with the first reason why one cannot be loaded. */
  async load(): Promise<void> {
    const withTokens = this.#models().filter(
      (model) => model.cards.length > 0 && !isPassedThrough(model),
    )
    try {
      await Promise.all(withTokens.map(async (model) => await model.text()))
    } catch (thrown) {
      this.#tryAgain()
      throw thrown
    }
  }

  /** Failures are logged. */
  loadSoon(): void {
    this.load().catch(() => undefined)
  }

  close(): void {
    this.#isClosed = true
    if (this.#retry !== null) clearTimeout(this.#retry)
  }

  #tryAgain(): void {
    if (this.#isClosed || this.#retry !== null) return
    this.#retry = setTimeout(() => {
      this.#retry = null
      this.loadSoon()
    }, RETRY_MS)
    this.#retry.unref()
  }
}
