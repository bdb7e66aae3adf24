/** Finds the routing decisions of a call in the routers of all models. */
import type { DecisionRecord } from '../../router/index.ts'
import type { ServedModel } from './served-model.ts'

export interface FoundDecisions {
  readonly model: ServedModel
  readonly decisions: readonly DecisionRecord[]
}

/** Oldest first. Each of several choices is a request of its own, `<id>-<choice>`. */
export function decisionsOf(
  models: readonly ServedModel[],
  requestId: string,
): FoundDecisions | null {
  for (const model of models) {
    const { router } = model
    const decisions = [...(router.explain(requestId) ?? [])]
    for (let choice = 0; ; choice++) {
      const ofChoice = router.explain(`${requestId}-${choice}`)
      if (ofChoice === null) break
      decisions.push(...ofChoice)
    }
    if (decisions.length > 0) return { model, decisions }
  }
  return null
}
