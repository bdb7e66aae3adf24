/**
 * True when requests of a model can only be forwarded unchanged: Baton makes no tokens for one of its engines,
 * and a request may be sent to any of them.
 */
import { canForward } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'

export function isPassedThrough(model: { readonly cards: readonly WorkerCard[] }): boolean {
  return model.cards.some(({ engine }) => engine.runtimeData?.['forwarded'] === true)
}

/** True when a request may be forwarded: every worker that it may be sent to has to accept that. */
export function takesForwarded(model: { readonly cards: readonly WorkerCard[] }): boolean {
  return model.cards.length > 0 && model.cards.every(canForward)
}
