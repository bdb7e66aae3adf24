/**
 * The models that have one further name (an alias, a LoRA adapter), and which of them gets its requests: the one with
 * the most workers that have the name, of several the one with the oldest of these workers. A worker to which no
 * connection can be made does not count.
 *
 * So every frontend arrives at the same model, whatever it saw first. One that already sends requests to another model
 * changes when that has been so for a time, in which workers that are restarted come back.
 */
import type { Clock, Timer, WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { olderFirst } from './agreeing-workers.ts'
import type { ModelFamily } from './model-family.ts'

export interface NameClaimsOptions {
  readonly clock: Clock
  /** How long a name stays that no worker has any more, and how long its model gets its requests although another should. */
  readonly forgetMs: number
  readonly isOutOfReach: (workerId: WorkerId) => boolean
  /** True while this process does not know the fleet yet; then every change takes effect at once. */
  readonly isStarting: () => boolean
}

interface Claim {
  readonly family: ModelFamily
  readonly cards: Map<WorkerId, WorkerCard>
  /** Runs while no worker has the name. */
  forgetting: Timer | null
}

export class NameClaims {
  readonly #options: NameClaimsOptions
  readonly #onEmpty: () => void
  #claims: Claim[] = []
  #owner: Claim | null = null
  /** Runs while another model should have the name. */
  #changing: Timer | null = null

  constructor(options: NameClaimsOptions, onEmpty: () => void) {
    this.#options = options
    this.#onEmpty = onEmpty
  }

  get owner(): ModelFamily | undefined {
    return this.#owner?.family
  }

  /** Models of which a worker has the name. */
  get claimants(): readonly ModelFamily[] {
    return this.#claims.flatMap(({ family, cards }) => (cards.size > 0 ? [family] : []))
  }

  add(card: WorkerCard, family: ModelFamily): void {
    let claim = this.#claims.find((each) => each.family === family)
    if (claim === undefined) {
      claim = { family, cards: new Map(), forgetting: null }
      this.#claims.push(claim)
    }
    claim.cards.set(card.workerId, card)
    claim.forgetting?.cancel()
    claim.forgetting = null
    this.reconsider()
  }

  /** `kept`: the model in which the worker still has the name. */
  release(workerId: WorkerId, kept: ModelFamily | null): void {
    const { clock, forgetMs } = this.#options
    for (const claim of this.#claims) {
      if (claim.family === kept || !claim.cards.delete(workerId) || claim.cards.size > 0) continue
      claim.forgetting = clock.after(forgetMs, () => this.#drop(claim))
    }
    this.reconsider()
  }

  /** The model was forgotten. */
  remove(family: ModelFamily): void {
    for (const claim of this.#claims) if (claim.family === family) this.#drop(claim)
  }

  close(): void {
    this.#stopChange()
    for (const { forgetting } of this.#claims) forgetting?.cancel()
  }

  /** Workers have joined or left, or can be reached or not any more. */
  reconsider(): void {
    const { clock, forgetMs, isStarting } = this.#options
    const best = this.#claims.length < 2 ? this.#claims[0] : this.#best()
    if (best === this.#owner || best === undefined) this.#stopChange()
    else if (this.#owner === null || isStarting()) this.#change()
    else this.#changing ??= clock.after(forgetMs, () => this.#change())
  }

  #change(): void {
    this.#stopChange()
    this.#owner = this.#best() ?? null
  }

  #stopChange(): void {
    this.#changing?.cancel()
    this.#changing = null
  }

  #best(): Claim | undefined {
    const ranked = this.#claims.map((claim) => ({ claim, ...this.#standing(claim) }))
    ranked.sort(
      (left, right) =>
        right.count - left.count ||
        (left.oldest !== null && right.oldest !== null ? olderFirst(left.oldest, right.oldest) : 0),
    )
    const [best] = ranked
    // No model has a worker: the one that had the name keeps it until it is forgotten.
    return best?.oldest === null ? (this.#owner ?? best.claim) : best?.claim
  }

  #standing({ cards }: Claim): { readonly count: number; readonly oldest: WorkerCard | null } {
    let count = 0
    let oldest: WorkerCard | null = null
    for (const card of cards.values()) {
      if (!this.#options.isOutOfReach(card.workerId)) count++
      if (oldest === null || olderFirst(card, oldest) < 0) oldest = card
    }
    return { count, oldest }
  }

  #drop(claim: Claim): void {
    claim.forgetting?.cancel()
    this.#claims = this.#claims.filter((other) => other !== claim)
    if (this.#owner === claim) {
      this.#owner = null
      this.#change()
    }
    if (this.#claims.length > 0) return
    this.#stopChange()
    this.#onEmpty()
  }
}
