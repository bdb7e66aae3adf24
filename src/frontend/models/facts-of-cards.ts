/** What the workers of a model have together, by their cards. */
import type { WorkerId } from '../../base/index.ts'
import type { EngineFeature, WorkerCard } from '../../request/index.ts'

export interface FactsOfCards {
  readonly cards: readonly WorkerCard[]
  /** The smallest of them. */
  readonly contextLength: number | undefined
  /** Features that all of them have, of those that state any. */
  readonly features: readonly EngineFeature[] | undefined
  /** They generate tokens and do not state their features (Baton 0.1). */
  readonly silentWorkers: readonly WorkerId[]
  /** All others; null: all or none of the generating workers state them. */
  readonly statingWorkers: readonly WorkerId[] | null
}

export function factsOfCards(cards: readonly WorkerCard[]): FactsOfCards {
  let shortest: number | undefined
  let common: readonly EngineFeature[] | undefined
  const [silentWorkers, others]: [WorkerId[], WorkerId[]] = [[], []]
  for (const { engine, mode, workerId } of cards) {
    const { contextLength, features } = engine
    const isSilent = features === undefined && mode !== 'prefill'
    ;(isSilent ? silentWorkers : others).push(workerId)
    if (contextLength !== undefined) shortest = Math.min(shortest ?? Infinity, contextLength)
    if (features !== undefined) {
      common = common === undefined ? features : common.filter((name) => features.includes(name))
    }
  }
  const statingWorkers = silentWorkers.length === 0 || common === undefined ? null : others
  return { cards, contextLength: shortest, features: common, silentWorkers, statingWorkers }
}
