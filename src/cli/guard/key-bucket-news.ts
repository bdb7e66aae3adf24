/** What happens to the NATS bucket of the keys, for the log and for the warnings of `/health`. */
import type { Logger } from 'pino'

const KEPT = 'the previous keys stay in use'
const AWAY = `the NATS bucket of the keys is unreachable, ${KEPT}`
const LOST = `the NATS bucket of the keys was deleted or lost, ${KEPT} until a key is added to the new one`

type Tell = (text: string | null) => void

export class KeyBucketNews {
  readonly #logger: Logger
  #why: string | null = null
  #isLost = false
  #tell: Tell = () => undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Calls `tell` with the warning that is true now, and at each change; null: there is none. */
  follow(tell: Tell): void {
    this.#tell = tell
    this.#changed()
  }

  away(why: string): void {
    this.#why = why
    this.#logger.warn({ why }, AWAY)
    this.#changed()
  }

  back(): void {
    this.#why = null
    this.#logger.warn('the NATS bucket of the keys is reachable again')
    this.#changed()
  }

  lost(): void {
    this.#isLost = true
    this.#logger.error(`${LOST}; a frontend that starts now has no keys`)
    this.#changed()
  }

  replaced(missing: number): void {
    this.#isLost = false
    const text = 'the NATS bucket of the keys is a new one: keys that it lacks are no longer valid'
    this.#logger.warn({ missing }, text)
    this.#changed()
  }

  #changed(): void {
    this.#tell(this.#why !== null ? `${AWAY}: ${this.#why}` : this.#isLost ? LOST : null)
  }
}
