/** The phase event of a request that asks its first pool for a worker. */
import { goalsOfFirst } from '../../request/index.ts'
import type { GenerateRequest, LegQueued, Phase } from '../../request/index.ts'

export function legQueued({ routing }: GenerateRequest, phase: Phase, atMs: number): LegQueued {
  // Without the moment on this router's clock.
  const goals = goalsOfFirst(routing.goals)
  return { kind: 'prefillQueued', phase, ...(goals === undefined ? {} : { goals }), atMs }
}
