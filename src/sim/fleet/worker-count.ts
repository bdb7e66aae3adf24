/**
 * What one worker of a fleet has done, counted from the steps of its engine.
 */
import type { SimStep } from '../../simengine/index.ts'
import type { FleetWorkerTotals } from '../report/fleet-report.ts'
import { traceBlocksIn } from '../trace/trace-request.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export class WorkerCount {
  readonly totals: Mutable<FleetWorkerTotals> = {
    requests: 0,
    promptTokens: 0,
    cachedTokens: 0,
    promptBlocks: 0,
    cachedBlocks: 0,
    outputTokens: 0,
    busyMs: 0,
    preemptions: 0,
    steps: 0,
  }

  get busyMs(): number {
    return this.totals.busyMs
  }

  step(step: SimStep<unknown>): void {
    const { totals } = this
    totals.steps += step.steps
    totals.busyMs += step.endMs - step.startMs
    totals.preemptions += step.preempted.length
    totals.outputTokens += step.outputTokens
    for (const { admissions, isTransferred, promptTokens, cachedTokens } of step.admitted) {
      if (admissions > 1) continue
      totals.requests += 1
      if (isTransferred) continue
      totals.promptTokens += promptTokens
      totals.cachedTokens += cachedTokens
      totals.promptBlocks += traceBlocksIn(promptTokens, promptTokens)
      totals.cachedBlocks += traceBlocksIn(cachedTokens, promptTokens)
    }
  }
}
