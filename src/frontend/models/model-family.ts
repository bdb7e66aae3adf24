/**
 * All that is served under one model name: one version, or several side by side while the model is updated.
 *
 * A version is a set of workers that agree with each other, with a router and a text of its own, so that both legs of a
 * request and whatever follows when a worker dies stay within it. Which version a request gets is decided once, by weight.
 */
import type { WorkerCard } from '../../request/index.ts'
import type { ServedModel } from './served-model.ts'

/** Of a version of which nobody has said anything. */
const WEIGHT_USUAL = 100
/** What was said first is given up. */
const TOLD_MAX = 64

export class ModelFamily {
  readonly name: string
  /** The oldest first. */
  readonly versions: ServedModel[] = []
  /** What an administrator has said, by version; it takes precedence over what workers report. */
  readonly #told = new Map<string, number>()

  constructor(name: string) {
    this.name = name
  }

  /** The version that the name stands for where no request is meant: the first that is ready. */
  get main(): ServedModel | undefined {
    return this.versions.find((version) => version.isReady) ?? this.versions[0]
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
    const told = this.#told.get(version.version)
    if (told !== undefined) return told
    const said = version.cards.flatMap(({ weight }) => (weight === undefined ? [] : [weight]))
    return said.length === 0 ? WEIGHT_USUAL : Math.max(...said)
  }

  /** A worker that differs from all versions may begin one of its own: somebody has said so. */
  mayBegin(card: WorkerCard, version: string): boolean {
    return card.weight !== undefined || this.#told.has(version)
  }

  /**
   * Of the versions that can serve, by weight; `draw` in [0, 1), the same for all requests of a session. With a single
   * one that can, weights decide nothing but 0, which means none.
   */
  pick(draw: number): ServedModel | undefined {
    if (this.versions.length < 2) return this.versions[0]
    const ready = this.versions.filter(({ isReady, cards }) => isReady && cards.length > 0)
    const weighted = ready
      .map((version) => ({ version, weight: this.weightOf(version) }))
      .filter(({ weight }) => weight > 0)
      // In every frontend in the same order, so that a session gets the same version everywhere.
      .toSorted((left, right) => (left.version.version < right.version.version ? -1 : 1))
    const total = weighted.reduce((sum, { weight }) => sum + weight, 0)
    let left = draw * total
    for (const { version, weight } of weighted) {
      left -= weight
      if (left < 0) return version
    }
    return weighted.at(-1)?.version ?? this.#unready(ready)
  }

  /** What is answered with the reason why it cannot serve; versions of weight 0 do not serve. */
  #unready(ready: readonly ServedModel[]): ServedModel | undefined {
    return this.versions.find((version) => !ready.includes(version))
  }

  remove(version: ServedModel): void {
    const at = this.versions.indexOf(version)
    if (at !== -1) this.versions.splice(at, 1)
  }
}

/** The version that a card is of; cards that say nothing are of one. */
export function versionOf({ agreement }: WorkerCard): string {
  return agreement?.checksum.slice(0, 12) ?? 'unknown'
}
