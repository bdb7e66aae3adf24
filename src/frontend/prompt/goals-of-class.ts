/**
 * The latency goals of a request that says none, from its class: known to the frontend, so that it can tell which were kept.
 */
import type { RoutingHints } from '../../request/index.ts'
import type { ModelRouter } from '../../router/index.ts'

export function withGoals(
  router: Pick<ModelRouter, 'goalsOf'>,
  routing: RoutingHints,
): RoutingHints {
  const goals = router.goalsOf(routing)
  return goals === undefined ? routing : { ...routing, goals }
}
