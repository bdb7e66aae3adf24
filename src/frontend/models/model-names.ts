/**
 * Which model a name stands for: the models' own names, and the further names of their workers (aliases, LoRA adapters).
 *
 * A model's own name precedes a further name, and of several models with one further name one has it (`name-claims.ts`).
 * A further name that no worker has any more is forgotten after a time, like a model without workers.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { servedModelNames } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { noModelYet, unknownModel } from './model-errors.ts'
import { ModelFamily } from './model-family.ts'
import { NameClaims } from './name-claims.ts'
import type { NameClaimsOptions } from './name-claims.ts'
import type { ServedModel } from './served-model.ts'

/** Limit for the names of models, including those that only other frontends have announced. */
const NAMED_MAX = 1_024

/** A name that two models have. */
export interface NameConflict {
  readonly name: string
  /** The model that requests with this name go to, and the one that also has it. */
  readonly owner: string
  readonly other: string
}

export class ModelNames {
  readonly #options: NameClaimsOptions
  readonly #families = new Map<string, ModelFamily>()
  /** By further name. */
  readonly #claims = new Map<string, NameClaims>()
  readonly #ofWorker = new Map<WorkerId, readonly string[]>()
  #toldConflicts: ReadonlySet<string> = new Set()
  /** False: no worker has ever served, and every name may still become valid. */
  #hadWorker = false

  constructor(options: NameClaimsOptions) {
    this.#options = options
  }

  /** Iterated for each request, so it is no list. */
  get families(): Iterable<ModelFamily> {
    return this.#families.values()
  }

  /** The model with this name of its own. */
  own(name: string): ModelFamily | undefined {
    return this.#families.get(name)
  }

  /** The model that the name stands for. */
  find(name: string): ModelFamily | undefined {
    const own = this.#families.get(name)
    if (own !== undefined && own.versions.length > 0) return own
    return this.#claims.get(name)?.owner ?? own
  }

  /** The model that a request means; without a name: the only one. Throws 404, or 503 before the first worker. */
  familyOf(name: string | undefined): ModelFamily {
    const family = name === undefined ? this.#only() : this.find(name)
    if (family === undefined) throw this.#unknown(name)
    return family
  }

  /** Its version outside of requests. Throws as `familyOf`. */
  known(name: string | undefined): ServedModel {
    const { main } = this.familyOf(name)
    if (main === undefined) throw this.#unknown(name)
    return main
  }

  #unknown(name = ''): BatonError {
    return this.#hadWorker ? unknownModel(name) : noModelYet()
  }

  /**
   * True when a name is a known model, or may become one: nothing else has the name, and the limit of announced
   * names is not reached.
   */
  mayName(model: string): boolean {
    if (this.own(model) !== undefined) return true
    return this.find(model) === undefined && this.#families.size < NAMED_MAX
  }

  /** Names that clients can use now, including aliases. Own names first. */
  served(): readonly (readonly [string, ServedModel])[] {
    const names = new Set([...this.#families.keys(), ...this.#claims.keys()])
    return [...names].flatMap((name) => {
      const meant = this.find(name)?.meant
      return meant?.isReady === true ? [[name, meant] as const] : []
    })
  }

  create(name: string): ModelFamily {
    const family = new ModelFamily(name)
    this.#families.set(name, family)
    return family
  }

  /** Its further names are forgotten with it; the weights that an administrator has set are kept. */
  remove(family: ModelFamily): void {
    if (family.toldWeights.size === 0) this.#families.delete(family.name)
    for (const claims of this.#claims.values()) claims.remove(family)
  }

  /** The worker serves in this model now, with the further names of its card. Replaces what it had before. */
  claim(card: WorkerCard, family: ModelFamily): void {
    this.#hadWorker = true
    const { workerId, engine } = card
    const names = [...servedModelNames(engine).slice(1), ...(engine.loraAdapters ?? [])]
    const before = this.#ofWorker.get(workerId)
    if (names.length > 0) this.#ofWorker.set(workerId, names)
    else this.#ofWorker.delete(workerId)
    for (const name of names) this.#claimsOf(name).add(card, family)
    for (const name of before ?? [])
      this.#claims.get(name)?.release(workerId, names.includes(name) ? family : null)
  }

  /** The worker has left, or serves no requests of this name now. */
  release(workerId: WorkerId): void {
    const names = this.#ofWorker.get(workerId) ?? []
    this.#ofWorker.delete(workerId)
    for (const name of names) this.#claims.get(name)?.release(workerId, null)
  }

  /** The worker can be reached, or not any more. */
  reconsider(workerId: WorkerId): void {
    for (const name of this.#ofWorker.get(workerId) ?? []) this.#claims.get(name)?.reconsider()
  }

  close(): void {
    for (const claims of this.#claims.values()) claims.close()
  }

  /** Names that two models have, of which only one gets the requests. */
  conflicts(): readonly NameConflict[] {
    return [...this.#claims].flatMap(([name, claims]) => {
      const owner = this.find(name)?.name ?? ''
      return claims.claimants.flatMap((family) =>
        family.name === owner ? [] : [{ name, owner, other: family.name }],
      )
    })
  }

  /** Each conflict once, and again when it comes back. */
  newConflicts(): readonly NameConflict[] {
    const before = this.#toldConflicts
    const all = this.conflicts().map((conflict) => [JSON.stringify(conflict), conflict] as const)
    this.#toldConflicts = new Set(all.map(([key]) => key))
    return all.flatMap(([key, conflict]) => (before.has(key) ? [] : [conflict]))
  }

  /** Models without workers are ignored when there is one with workers. */
  #only(): ModelFamily {
    const families = [...this.#families.values()].filter(({ versions }) => versions.length > 0)
    const inhabited = families.filter(({ versions }) =>
      versions.some(({ cards }) => cards.length > 0),
    )
    const [first, ...others] = inhabited.length > 0 ? inhabited : families
    if (first === undefined) throw noModelYet()
    if (others.length === 0) return first
    throw new BatonError(
      'request.invalid_argument',
      '`model` is missing: several models are served, name one',
      { data: { param: 'model' } },
    )
  }

  #claimsOf(name: string): NameClaims {
    const known = this.#claims.get(name)
    if (known !== undefined) return known
    const claims = new NameClaims(this.#options, () => this.#claims.delete(name))
    this.#claims.set(name, claims)
    return claims
  }
}
