/** The phase event that a request is queued at its first pool. */
import { goalsOfFirst } from '../../request/index.ts'
import type { GenerateRequest, LegQueued, Phase } from '../../request/index.ts'

export function legQueued({ routing }: GenerateRequest, phase: Phase, atMs: number): LegQueued {
  // Without the absolute time on this router's clock.
  const goals = goalsOfFirst(routing.goals)
  return { kind: 'prefillQueued', phase, ...(goals === undefined ? {} : { goals }), atMs }
}
