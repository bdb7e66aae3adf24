/**
 * Which model a name stands for: the models' own names, and the further names of their workers (aliases, LoRA adapters).
 *
 * A model's own name precedes a further name, and of several models with one further name the first one has it. A further
 * name that no worker has any more is forgotten after a time, like a model without workers.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer, WorkerId } from '../../base/index.ts'
import { servedModelNames } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { noModelYet } from './model-errors.ts'
import { ModelFamily } from './model-family.ts'

/** A further name as one model has it. */
interface Claim {
  readonly family: ModelFamily
  readonly workers: Set<WorkerId>
  /** Runs while no worker has the name. */
  forgetting: Timer | null
}

/** A name that two models have. */
export interface NameConflict {
  readonly name: string
  /** The model that requests with this name go to, and the one that also has it. */
  readonly owner: string
  readonly other: string
}

export class ModelNames {
  readonly #clock: Clock
  readonly #forgetMs: number
  readonly #families = new Map<string, ModelFamily>()
  /** Claims on further names, the oldest first. */
  readonly #claims = new Map<string, Claim[]>()
  readonly #ofWorker = new Map<WorkerId, readonly string[]>()
  #toldConflicts: ReadonlySet<string> = new Set()

  constructor(clock: Clock, forgetMs: number) {
    this.#clock = clock
    this.#forgetMs = forgetMs
  }

  /** Iterated for each request, so it is no list. */
  get families(): Iterable<ModelFamily> {
    return this.#families.values()
  }

  get familyCount(): number {
    return this.#families.size
  }

  /** The model with this name of its own. */
  own(name: string): ModelFamily | undefined {
    return this.#families.get(name)
  }

  /** The model that the name stands for. */
  find(name: string): ModelFamily | undefined {
    const own = this.#families.get(name)
    if (own !== undefined && own.versions.length > 0) return own
    return this.#claims.get(name)?.[0]?.family ?? own
  }

  /** Every name that a client may use. Own names first. */
  all(): readonly (readonly [string, ModelFamily])[] {
    const names = new Set([...this.#families.keys(), ...this.#claims.keys()])
    return [...names].flatMap((name) => {
      const family = this.find(name)
      return family === undefined ? [] : [[name, family] as const]
    })
  }

  create(name: string): ModelFamily {
    const family = new ModelFamily(name)
    this.#families.set(name, family)
    return family
  }

  /** Its further names are forgotten with it. */
  remove(family: ModelFamily): void {
    this.#families.delete(family.name)
    for (const [name, claims] of this.#claims) {
      for (const claim of claims) if (claim.family === family) this.#drop(name, claim)
    }
  }

  /** The worker serves in this model now, with the further names of its card. Replaces what it had before. */
  claim({ workerId, engine }: WorkerCard, family: ModelFamily): void {
    const names = [...servedModelNames(engine).slice(1), ...(engine.loraAdapters ?? [])]
    const before = this.#ofWorker.get(workerId)
    if (names.length > 0) this.#ofWorker.set(workerId, names)
    else this.#ofWorker.delete(workerId)
    for (const name of names) {
      const claim = this.#claimOf(name, family)
      claim.workers.add(workerId)
      claim.forgetting?.cancel()
      claim.forgetting = null
    }
    for (const name of before ?? [])
      this.#release(name, workerId, names.includes(name) ? family : null)
  }

  /** The worker has left, or serves no requests of this name now. */
  release(workerId: WorkerId): void {
    const names = this.#ofWorker.get(workerId) ?? []
    this.#ofWorker.delete(workerId)
    for (const name of names) this.#release(name, workerId, null)
  }

  conflicts(): readonly NameConflict[] {
    return [...this.#claims].flatMap(([name, claims]) => {
      const owner = this.find(name)?.name ?? ''
      return claims.flatMap(({ family, workers }) =>
        family.name === owner || workers.size === 0 ? [] : [{ name, owner, other: family.name }],
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
  only(): ModelFamily {
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

  #claimOf(name: string, family: ModelFamily): Claim {
    const claims = this.#claims.get(name) ?? []
    if (claims.length === 0) this.#claims.set(name, claims)
    const known = claims.find((claim) => claim.family === family)
    if (known !== undefined) return known
    const claim: Claim = { family, workers: new Set(), forgetting: null }
    claims.push(claim)
    return claim
  }

  /** `kept`: the model in which the worker still has the name. */
  #release(name: string, workerId: WorkerId, kept: ModelFamily | null): void {
    for (const claim of this.#claims.get(name) ?? []) {
      if (claim.family === kept || !claim.workers.delete(workerId) || claim.workers.size > 0)
        continue
      claim.forgetting = this.#clock.after(this.#forgetMs, () => this.#drop(name, claim))
    }
  }

  #drop(name: string, claim: Claim): void {
    claim.forgetting?.cancel()
    const left = (this.#claims.get(name) ?? []).filter((other) => other !== claim)
    if (left.length > 0) this.#claims.set(name, left)
    else this.#claims.delete(name)
  }
}
