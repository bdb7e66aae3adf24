/**
 * The shutdown in order: unregister → router_grace → stop_admission → inflight → kv_transfer → cleanup.
 *
 * Owns the order, the time limits and the report; what a stage does is in `ShutdownWork`. No stage can prevent a
 * later one: a failure is reported and the next stage begins.
 */
import { BatonError, sleep, withDeadline } from '../base/index.ts'
import type { Clock } from '../base/index.ts'
import { ShutdownBudget } from './shutdown-budget.ts'
import type { ShutdownConfig, ShutdownStage, StageReason, StageReport } from './shutdown-budget.ts'

interface ShutdownWork {
  /** Null if the worker is not registered. */
  readonly unregister: (() => Promise<void>) | null
  /** False if no request was ever admitted. */
  readonly wasServing: boolean
  /** Aborted if there is no time left to wait; stages that are waiting then end as `cancelled`. */
  readonly hurried: AbortSignal
  stopAdmission(): Promise<void>
  whenIdle(): Promise<void>
  /** Never rejects. Completion of the engine's `drain`, which `stopAdmission` has started. */
  whenEngineDrained(): Promise<void>
  /** The in-flight time is over: ends the remaining requests with `backend.engine_shutdown`. */
  failInFlight(): void
  /** 'skip': not a prefill worker; null: unknown. */
  isKvQuiescent(): boolean | null | 'skip'
  cleanup(): Promise<void>
}

export interface ShutdownReport {
  readonly stages: readonly StageReport[]
  /** 0: clean; 1: the engine could not be cleaned up in time. */
  readonly exitCode: 0 | 1
}

const KV_POLL_MS = 50

export async function runShutdown(
  clock: Clock,
  config: ShutdownConfig,
  work: ShutdownWork,
  onStage: (report: StageReport) => void,
): Promise<ShutdownReport> {
  const budget = new ShutdownBudget(clock, config)
  const stages: StageReport[] = []
  const run = async (stage: ShutdownStage, body: () => Promise<StageOutcome>): Promise<void> => {
    const startMs = clock.nowMs()
    const outcome = await settle(body)
    const report = { stage, ...outcome, elapsedMs: clock.nowMs() - startMs }
    stages.push(report)
    onStage(report)
  }
  const bounded = async (stage: ShutdownStage, promise: Promise<void>): Promise<StageOutcome> => {
    const hurried = stage === 'cleanup' ? undefined : work.hurried
    const { kind } = await withDeadline(clock, budget.allowanceMs(stage), promise, hurried)
    return { reason: kind === 'done' ? 'completed' : kind }
  }

  /** The engine's `drain` may use the rest of the budget: cleanup never starts during it. */
  const afterDrain = async (outcome: StageOutcome): Promise<StageOutcome> => {
    const { kind } = await withDeadline(
      clock,
      budget.remainingMs,
      work.whenEngineDrained(),
      work.hurried,
    )
    if (kind === 'done') return outcome
    const reason = kind === 'cancelled' ? kind : 'timed_out'
    return { reason, note: 'the engine did not finish its drain' }
  }

  await run('unregister', async () =>
    work.unregister === null ? SKIPPED : await bounded('unregister', work.unregister()),
  )
  await run('router_grace', async () => {
    const graceMs = budget.allowanceMs('router_grace')
    if (!work.wasServing || graceMs === 0) return SKIPPED
    const { kind } = await withDeadline(clock, graceMs, never(), work.hurried)
    return { reason: kind === 'cancelled' ? kind : 'completed' }
  })
  await run('stop_admission', async () =>
    work.wasServing ? await bounded('stop_admission', work.stopAdmission()) : SKIPPED,
  )
  await run('inflight', async () => {
    if (!work.wasServing) return SKIPPED
    const outcome = await bounded('inflight', work.whenIdle())
    if (outcome.reason !== 'completed') work.failInFlight()
    return outcome.reason === 'cancelled' ? outcome : await afterDrain(outcome)
  })
  await run('kv_transfer', () => waitForKv(clock, budget, work))
  await run('cleanup', () => bounded('cleanup', work.cleanup()))

  const wasAbandoned = stages.some((s) => s.stage === 'cleanup' && s.reason === 'timed_out')
  return { stages, exitCode: wasAbandoned ? 1 : 0 }
}

interface StageOutcome {
  readonly reason: StageReason
  readonly note?: string
}

/** A new promise per wait: a shared one would keep references to everyone who ever waited for it. */
const never = (): Promise<never> => new Promise(() => undefined)

const SKIPPED: StageOutcome = { reason: 'skipped' }

/** An error of a stage goes into its report; the shutdown continues. */
async function settle(body: () => Promise<StageOutcome>): Promise<StageOutcome> {
  try {
    return await body()
  } catch (thrown) {
    return { reason: 'completed', note: BatonError.from(thrown).message }
  }
}

async function waitForKv(
  clock: Clock,
  budget: ShutdownBudget,
  work: ShutdownWork,
): Promise<StageOutcome> {
  const endMs = clock.nowMs() + budget.allowanceMs('kv_transfer')
  let couldTell = false
  for (;;) {
    const isQuiescent = work.isKvQuiescent()
    if (isQuiescent === 'skip') return SKIPPED
    if (isQuiescent === true) return { reason: 'completed' }
    if (work.hurried.aborted) return { reason: 'cancelled' }
    if (isQuiescent === false) couldTell = true
    const leftMs = endMs - clock.nowMs()
    if (leftMs <= 0) return { reason: couldTell ? 'timed_out' : 'unsupported' }
    await sleep(clock, Math.min(KV_POLL_MS, leftMs))
  }
}
