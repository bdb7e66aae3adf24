/**
 * When workers that serve give way to others of their model.
 *
 * Within a version: a larger group of workers agrees, or those that serve have left (`reconsider`). Between versions: a
 * version has got its first weight, or lost its last one (`settle`). A change is made at once if it takes requests from
 * nobody; else after a time, in which workers that died may come back. Until discovery has listed all workers nothing
 * is changed.
 */
import type { Clock } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { FirstPicture } from './first-picture.ts'
import type { LeavingModels } from './leaving-models.ts'
import type { ModelFamily } from './model-family.ts'
import type { ServedModel } from './served-model.ts'

interface ServingChangesOptions {
  readonly clock: Clock
  readonly waitMs: number
  readonly firstPicture: FirstPicture
  readonly leaving: LeavingModels
  /** Makes the version anew for workers like this one. */
  readonly replace: (model: ServedModel, card: WorkerCard) => void
  /** Looks again where each worker belongs. */
  readonly rejoin: (cards: readonly WorkerCard[]) => void
}

export class ServingChanges {
  readonly #options: ServingChangesOptions
  #isSettling = false

  constructor(options: ServingChangesOptions) {
    this.#options = options
  }

  /**
   * Takes workers in that should serve, at once if a worker has left for good (`isFinal`). Workers that serve give way
   * at once only while this process is starting and serves nobody, or if none of them could ever be reached.
   */
  reconsider(model: ServedModel, isFinal = false): void {
    const { clock, waitMs, firstPicture, leaving } = this.#options
    if (firstPicture.isLooking || leaving.has(model)) return
    const { choice } = model
    if (choice === null) {
      model.switching?.cancel()
      model.switching = null
    } else if (!firstPicture.isComplete || (isFinal && !choice.isOther) || model.isOutOfReach) {
      this.switch(model)
    } else {
      model.switching ??= clock.after(waitMs, () => this.switch(model))
    }
  }

  /** Those workers serve from now on that should. */
  switch(model: ServedModel): void {
    const { replace, rejoin } = this.#options
    const { choice } = model
    model.switching?.cancel()
    model.switching = null
    if (choice === null) return
    const [first] = choice.cards
    if (choice.isOther && first !== undefined) replace(model, first)
    rejoin(
      choice.isOther
        ? choice.cards
        : choice.cards.filter(({ workerId }) => model.cardOf(workerId) === undefined),
    )
  }

  /** Moves workers for which a version has got its first weight or lost its last one; at once if that is final. */
  settle(family: ModelFamily, isFinal = false): void {
    if (this.#isSettling) return
    this.#isSettling = true
    const { clock, waitMs, firstPicture, rejoin } = this.#options
    const isNow = isFinal || !firstPicture.isComplete
    if (isNow && !firstPicture.isLooking) this.unite(family)
    let cards = family.misplaced()
    for (; cards.length > 0; cards = family.misplaced()) rejoin(cards)
    this.#isSettling = false
    if (family.extra.length === 0) {
      family.uniting?.cancel()
      family.uniting = null
    } else if (!firstPicture.isLooking) {
      family.uniting ??= clock.after(waitMs, () => {
        family.uniting = null
        this.unite(family)
      })
    }
  }

  /** Of several versions without a weight one is left; the workers of the others are refused by it. */
  unite(family: ModelFamily): void {
    const { leaving, rejoin } = this.#options
    for (const model of family.extra) {
      family.remove(model)
      leaving.add(model)
      rejoin(model.registered)
    }
  }
}
