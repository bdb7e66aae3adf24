/** What the workers of a model have together, by their cards. */
import type { WorkerId } from '../../base/index.ts'
import { isSilent } from '../../request/index.ts'
import type { EngineFeature, WorkerCard } from '../../request/index.ts'

export interface FactsOfCards {
  readonly cards: readonly WorkerCard[]
  /** Further names of the model that one of them has. */
  readonly aliases: ReadonlySet<string>
  /** The smallest of them. */
  readonly contextLength: number | undefined
  /** Features that all of them have, of those that state any. */
  readonly features: readonly EngineFeature[] | undefined
  /** They generate tokens and do not state their features (Baton 0.1). */
  readonly silentWorkers: readonly WorkerId[]
  /** One of those that generate tokens states them. */
  readonly statesFeatures: boolean
}

export function factsOfCards(cards: readonly WorkerCard[]): FactsOfCards {
  let shortest: number | undefined
  let common: readonly EngineFeature[] | undefined
  for (const { engine } of cards) {
    const { contextLength, features } = engine
    if (contextLength !== undefined) shortest = Math.min(shortest ?? Infinity, contextLength)
    if (features !== undefined) {
      common = common === undefined ? features : common.filter((name) => features.includes(name))
    }
  }
  const aliases = new Set(cards.flatMap(({ engine }) => engine.modelAliases ?? []))
  const generating = cards.filter(({ mode }) => mode !== 'prefill')
  const silentWorkers = generating.filter(isSilent).map(({ workerId }) => workerId)
  const statesFeatures = silentWorkers.length < generating.length
  return {
    cards,
    aliases,
    contextLength: shortest,
    features: common,
    silentWorkers,
    statesFeatures,
  }
}
