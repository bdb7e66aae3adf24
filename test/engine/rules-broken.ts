/** Runs the conformance kit on an engine, in virtual time. */
import { runConformance } from '../../src/engine/testing/run-conformance.ts'
import { VirtualClock } from '../../src/sim/index.ts'
import type { Broken } from './sound-engine.ts'

export async function rulesBrokenBy({ make, options }: Broken): Promise<readonly string[]> {
  const clock = new VirtualClock({ settle: () => new Promise(setImmediate) })
  const report = await clock.runUntil(runConformance(() => make(clock), { clock, ...options }))
  return report.failures.map(({ rule }) => rule)
}
