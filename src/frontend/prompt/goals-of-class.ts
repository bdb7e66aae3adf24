/**
 * The latency goals of a request that sets none, from its class. The frontend needs them to report which goals
 * were met.
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
