/**
 * All versions that are served under one model name: usually one, and several while the model is updated.
 *
 * A version is a set of workers that agree with each other, with its own router and text side, so that both
 * legs of a request and its migrations stay within the version. The version of a request is chosen once, by
 * weight.
 *
 * A version with a weight, from one of its workers or from an administrator, takes part whatever the others are. Of the
 * workers that belong to none of these, those that agree with each other are one more version
 * (`agreeing-workers.ts`).
 */
import type { Timer } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { olderFirst } from './agreeing-workers.ts'
import type { ServedModel } from './served-model.ts'

/** The weight of a version without an explicit one. */
const WEIGHT_USUAL = 100
/** When full, the oldest entry is dropped. */
const TOLD_MAX = 64

export class ModelFamily {
  readonly name: string
  /** Oldest first. */
  readonly versions: ServedModel[] = []
  /** LoRA adapters of all its workers so far. */
  readonly adapters = new Set<string>()
  /** Weights set by an administrator, by version; they take precedence over what workers report. */
  readonly #told = new Map<string, number>()
  /** Runs while there are several versions without a weight (`extra`). */
  uniting: Timer | null = null

  constructor(name: string) {
    this.name = name
  }

  /** The version that the name stands for outside of requests: the first that gets requests. */
  get main(): ServedModel | undefined {
    const { meant, versions } = this
    if (meant?.isReady === true) return meant
    return versions.find((version) => version.isReady) ?? versions[0]
  }

  /** The version whose state is that of requests for the name; undefined: all have weight 0. */
  get meant(): ServedModel | undefined {
    const weighted = this.versions.filter((version) => this.weightOf(version) > 0)
    return weighted.find((version) => version.isReady) ?? weighted[0]
  }

  /** True when requests for the name are refused because all its versions have weight 0. */
  get isSilenced(): boolean {
    return this.versions.length > 0 && this.meant === undefined
  }

  setWeight(version: string, weight: number): void {
    this.#told.delete(version)
    this.#told.set(version, weight)
    for (const oldest of this.#told.keys()) {
      if (this.#told.size <= TOLD_MAX) break
      this.#told.delete(oldest)
    }
  }

  get toldWeights(): ReadonlyMap<string, number> {
    return this.#told
  }

  weightOf(version: ServedModel): number {
    return this.#givenWeightOf(version) ?? WEIGHT_USUAL
  }

  #givenWeightOf({ version, weight }: ServedModel): number | undefined {
    return this.#told.get(version) ?? weight
  }

  /** True when a worker that differs from all versions may start a new one. */
  mayBegin(card: WorkerCard, version: string): boolean {
    return card.weight !== undefined || this.#told.has(version) || this.unweighted === undefined
  }

  /** The version for workers without a weight, which refuses those that differ. */
  get unweighted(): ServedModel | undefined {
    const [first] = this.#allUnweighted
    return first ?? this.versions.find((version) => this.#givenWeightOf(version) === undefined)
  }

  /** Those with workers that serve, the one that should stay first: the largest, then the oldest. */
  get #allUnweighted(): readonly ServedModel[] {
    return this.versions
      .filter((each) => each.size > 0 && this.#givenWeightOf(each) === undefined)
      .toSorted((left, right) => right.size - left.size || olderVersion(left, right))
  }

  /** Versions that have lost their last worker with a weight, as long as there is another one without a weight. */
  get extra(): readonly ServedModel[] {
    return this.#allUnweighted.slice(1)
  }

  /**
   * The refused versions that would serve if this version got a weight, because all others would have one, too. Whoever
   * gives it one does not mean that.
   */
  heldBackBy(version: string): readonly string[] {
    const { unweighted } = this
    if (unweighted?.version !== version) return []
    return [...new Set(unweighted.refused.map(({ card }) => versionOf(card)))]
  }

  /** Workers that are refused where they are, but not where they belong now. */
  misplaced(): readonly WorkerCard[] {
    return this.versions.flatMap((version) => {
      if (!version.hasRefused) return []
      const cards = version.refused.map(({ card }) => card)
      if (this.#givenWeightOf(version) !== undefined) return cards
      return cards.filter((card) => this.versions.some((other) => other.agreesWith(card)))
    })
  }

  /**
   * Chooses among the versions that can serve, by weight. `draw` is in [0, 1) and equal for all requests of a
   * session. If only one can serve, its weight matters only when it is 0, which means none. With a further name (an
   * alias, an adapter) only the versions that have it are asked, as long as there are some. Undefined: no version, or
   * none with a weight above 0.
   */
  pick(draw: number, name: string = this.name): ServedModel | undefined {
    if (this.versions.length < 2) {
      return this.versions.find((version) => this.weightOf(version) > 0)
    }
    const able = this.versions.filter(({ isReady, size }) => isReady && size > 0)
    const named = name === this.name ? able : able.filter((version) => version.hasFurtherName(name))
    const ready = named.length > 0 ? named : able
    const weighted = ready
      .map((version) => ({ version, weight: this.weightOf(version) }))
      .filter(({ weight }) => weight > 0)
      // The same order in every frontend, so that a session gets the same version everywhere.
      .toSorted((left, right) => (left.version.version < right.version.version ? -1 : 1))
    const total = weighted.reduce((sum, { weight }) => sum + weight, 0)
    let left = draw * total
    for (const { version, weight } of weighted) {
      left -= weight
      if (left < 0) return version
    }
    return weighted.at(-1)?.version ?? this.#unready(ready)
  }

  /** The version whose reason for not serving is reported; versions of weight 0 do not serve. */
  #unready(ready: readonly ServedModel[]): ServedModel | undefined {
    return this.versions.find((version) => !ready.includes(version) && this.weightOf(version) > 0)
  }

  /**
   * The version that has to be made anew for the worker: it agrees with all that are left there, but not with some
   * that have left. A version without other workers is made anew if the worker cannot start another one.
   */
  outdatedBy(card: WorkerCard): ServedModel | undefined {
    const isOnly = this.versions.length === 1
    const own = this.mayBegin(card, versionOf(card)) ? undefined : this.unweighted
    return this.versions.find(
      (version) =>
        version.isOutdatedBy(card) && (isOnly || version === own || version.hasOthers(card)),
    )
  }

  hasWorkersBesides(version: ServedModel): boolean {
    return this.versions.some((other) => other !== version && other.size > 0)
  }

  replace(version: ServedModel, next: ServedModel): void {
    const at = this.versions.indexOf(version)
    if (at === -1) this.versions.push(next)
    else this.versions[at] = next
  }

  remove(version: ServedModel): void {
    const at = this.versions.indexOf(version)
    if (at !== -1) this.versions.splice(at, 1)
  }
}

function olderVersion({ cards: [left] }: ServedModel, { cards: [right] }: ServedModel): number {
  return left === undefined || right === undefined ? 0 : olderFirst(left, right)
}

/** The version of a card; cards without one belong to the same version. */
export function versionOf({ agreement }: WorkerCard): string {
  return agreement?.checksum.slice(0, 12) ?? 'unknown'
}
