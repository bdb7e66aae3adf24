/** Tells a worker which LoRA adapters its server has now; the watch begins before the worker listens. */
import type { EngineObserver } from '../../engine/index.ts'

type AdapterObserver = Pick<EngineObserver, 'loraAdapters'>

export class AdapterNews {
  #observer: AdapterObserver | null = null
  /** Null: as at the start. */
  #names: readonly string[] | null = null

  /** For the watch, with the adapters at the start. */
  from(atStart: readonly string[] = []): {
    readonly atStart: readonly string[]
    readonly onChange: (names: readonly string[]) => void
  } {
    return {
      atStart,
      onChange: (names) => {
        this.#names = names
        this.#observer?.loraAdapters?.(names)
      },
    }
  }

  tell(observer: AdapterObserver): void {
    this.#observer = observer
    if (this.#names !== null) observer.loraAdapters?.(this.#names)
  }
}
