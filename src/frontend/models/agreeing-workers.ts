/**
 * Which workers of a model serve when not all of them agree: the largest group of workers that agree with each other,
 * of two equally large ones the one with the oldest worker. See docs/decisions/which-workers-serve.md.
 *
 * The answer depends on the registered cards alone, not on the order in which they became known, so that every frontend
 * arrives at the same one.
 */
import type { WorkerId } from '../../base/index.ts'
import { modelDifferences, modelFactsOf, modelFactsText } from '../../request/index.ts'
import type { ModelFacts, WorkerCard } from '../../request/index.ts'

/** Workers whose cards state the same facts. */
export interface AlikeWorkers {
  readonly facts: ModelFacts
  readonly cards: Map<WorkerId, WorkerCard>
}

/** There are few kinds of cards, however many workers, so questions about all workers are asked per kind. */
export class WorkersByFacts {
  readonly #kinds = new Map<string, AlikeWorkers>()
  readonly #ofWorker = new Map<WorkerId, string>()

  get kinds(): readonly AlikeWorkers[] {
    return [...this.#kinds.values()]
  }

  kindOf(workerId: WorkerId): AlikeWorkers | undefined {
    return this.#kinds.get(this.#ofWorker.get(workerId) ?? '')
  }

  set(card: WorkerCard): void {
    this.delete(card.workerId)
    const text = modelFactsText(card)
    const kind = this.#kinds.get(text) ?? { facts: modelFactsOf(card), cards: new Map() }
    kind.cards.set(card.workerId, card)
    this.#kinds.set(text, kind)
    this.#ofWorker.set(card.workerId, text)
  }

  delete(workerId: WorkerId): void {
    const text = this.#ofWorker.get(workerId)
    if (text === undefined) return
    this.#ofWorker.delete(workerId)
    const kind = this.#kinds.get(text)
    kind?.cards.delete(workerId)
    if (kind?.cards.size === 0) this.#kinds.delete(text)
  }
}

interface Group {
  facts: ModelFacts
  readonly kinds: AlikeWorkers[]
}

/** `votesOf`: how many workers of a kind count. */
export function largestAgreeing(
  kinds: readonly AlikeWorkers[],
  votesOf: (kind: AlikeWorkers) => number,
): readonly AlikeWorkers[] {
  const votes = (some: readonly AlikeWorkers[]): number =>
    some.reduce((sum, kind) => sum + votesOf(kind), 0)
  const byRank = (left: readonly AlikeWorkers[], right: readonly AlikeWorkers[]): number =>
    votes(right) - votes(left) || olderFirst(oldestOf(left), oldestOf(right))
  // A card that states less agrees with more, so it comes after those that decide which groups there are.
  const ranked = kinds.toSorted(
    (left, right) => statedCount(right) - statedCount(left) || byRank([left], [right]),
  )
  const groups: Group[] = []
  const ofRank = (some: readonly Group[]): Group | undefined =>
    some.toSorted((left, right) => byRank(left.kinds, right.kinds))[0]
  for (const kind of ranked) {
    const group = ofRank(groups.filter(({ facts }) => agree(facts, kind.facts)))
    if (group === undefined) groups.push({ facts: kind.facts, kinds: [kind] })
    else extend(group, kind)
  }
  const largest = ofRank(groups)
  if (largest === undefined) return []
  for (const kind of ranked) {
    if (!largest.kinds.includes(kind) && agree(largest.facts, kind.facts)) extend(largest, kind)
  }
  return largest.kinds
}

/** A worker that does not say when it started counts as the youngest. */
export function olderFirst(left: WorkerCard, right: WorkerCard): number {
  const [leftMs, rightMs] = [left.startedAtEpochMs ?? Infinity, right.startedAtEpochMs ?? Infinity]
  if (leftMs !== rightMs) return leftMs < rightMs ? -1 : 1
  return left.workerId < right.workerId ? -1 : 1
}

function oldestOf(kinds: readonly AlikeWorkers[]): WorkerCard {
  const cards = kinds.flatMap((kind) => [...kind.cards.values()])
  return cards.reduce((oldest, card) => (olderFirst(card, oldest) < 0 ? card : oldest))
}

function agree(left: ModelFacts, right: ModelFacts): boolean {
  return modelDifferences(left, right).length === 0
}

function extend(group: Group, kind: AlikeWorkers): void {
  group.facts = { ...kind.facts, ...group.facts }
  group.kinds.push(kind)
}

function statedCount({ facts }: AlikeWorkers): number {
  return Object.keys(facts).length
}
