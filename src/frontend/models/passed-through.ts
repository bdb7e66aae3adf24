/**
 * True when requests of a model can only be forwarded unchanged: Baton makes no tokens for one of its engines,
 * and a request may be sent to any of them.
 */
import { canForward } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelFamily } from './model-family.ts'

export function isPassedThrough({ cards }: { readonly cards: Cards }): boolean {
  return answersOf(cards).isPassedThrough
}

/** True when that holds for some model. Called for each request, so it creates no list. */
export function hasPassedThrough(families: Iterable<ModelFamily>): boolean {
  for (const { versions } of families) {
    for (const version of versions) if (isPassedThrough(version)) return true
  }
  return false
}

/** True when a request may be forwarded: every worker that it may be sent to has to accept that. */
export function takesForwarded({ cards }: { readonly cards: Cards }): boolean {
  return answersOf(cards).takesForwarded
}

type Cards = readonly WorkerCard[]

interface Answers {
  readonly isPassedThrough: boolean
  readonly takesForwarded: boolean
}

/** A model keeps its list of cards until one changes, and every request asks, so answers are cached by list. */
const known = new WeakMap<Cards, Answers>()

function answersOf(cards: Cards): Answers {
  let answers = known.get(cards)
  if (answers === undefined) {
    answers = {
      isPassedThrough: cards.some(({ engine }) => engine.runtimeData?.['forwarded'] === true),
      takesForwarded: cards.length > 0 && cards.every(canForward),
    }
    known.set(cards, answers)
  }
  return answers
}
