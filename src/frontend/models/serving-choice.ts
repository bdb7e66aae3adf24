/** Decides who of the workers of a version should serve, compared with who does. */
import type { WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { largestAgreeing, olderFirst } from './agreeing-workers.ts'
import type { AlikeWorkers, WorkersByFacts } from './agreeing-workers.ts'

export interface ServingChoice {
  /** All workers, those that should serve first, each part oldest first. */
  readonly cards: readonly WorkerCard[]
  /** True when workers that serve now should not. */
  readonly isOther: boolean
}

type IsServing = (workerId: WorkerId) => boolean

/** Null: those workers serve that should. A worker to which no connection can be made (`unreachable`) does not count. */
export function servingChoice(
  workers: WorkersByFacts,
  isServing: IsServing,
  unreachable: readonly WorkerId[],
): ServingChoice | null {
  const { kinds } = workers
  const votes = new Map(kinds.map((kind) => [kind, kind.cards.size]))
  for (const workerId of unreachable) {
    const kind = workers.kindOf(workerId)
    if (kind !== undefined) votes.set(kind, (votes.get(kind) ?? 0) - 1)
  }
  const chosen = new Set(largestAgreeing(kinds, (kind) => votes.get(kind) ?? 0))
  const isOther = kinds.some((kind) => someServe(kind, isServing) && !chosen.has(kind))
  const isMissing = kinds.some((kind) => !someServe(kind, isServing) && chosen.has(kind))
  if (!isOther && !isMissing) return null
  const others = kinds.filter((kind) => !chosen.has(kind))
  return { cards: [...oldestFirst(chosen), ...oldestFirst(others)], isOther }
}

export function someServe({ cards }: AlikeWorkers, isServing: IsServing): boolean {
  for (const workerId of cards.keys()) if (isServing(workerId)) return true
  return false
}

export function oldestFirst(kinds: Iterable<AlikeWorkers>): readonly WorkerCard[] {
  return [...kinds].flatMap(({ cards }) => [...cards.values()]).toSorted(olderFirst)
}
