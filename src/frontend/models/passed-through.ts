/**
 * Whether a model's requests can only go on as they came: for one of its engines nothing here makes tokens, and a
 * request may be sent to any of them.
 */
import { canForward } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'

export function isPassedThrough(model: { readonly cards: readonly WorkerCard[] }): boolean {
  return model.cards.some(({ engine }) => engine.runtimeData?.['forwarded'] === true)
}

/** Whether a request may go on as it came: every worker that it may be sent to has to be able to take it so. */
export function takesForwarded(model: { readonly cards: readonly WorkerCard[] }): boolean {
  return model.cards.length > 0 && model.cards.every(canForward)
}
