/**
 * The conformance kit: everything that Baton expects of an engine, tried on a real one.
 *
 * Framework-free: the caller asserts that `report.passed` and prints `describeFailures(report)`. One engine lives
 * through all checks in order, as in a worker; a second one is never started.
 */
import {
  checkConcurrentStop,
  checkDrop,
  checkStopBeforeFirst,
  checkStopInMiddle,
} from './cancel-checks.ts'
import type { ConformanceOptions, EngineFactory } from './conformance-options.ts'
import { ReportBuilder } from './conformance-report.ts'
import type { ConformanceReport } from './conformance-report.ts'
import { ConformanceSubject, messageOf } from './conformance-subject.ts'
import { checkEmbeddings } from './embedding-check.ts'
import {
  checkBeforeStart,
  checkConcurrent,
  checkErrors,
  checkHealth,
  checkLogprobs,
  checkSeed,
  checkSingle,
} from './generate-checks.ts'
import {
  checkAbort,
  checkCleanup,
  checkCleanupWithoutStart,
  checkDrain,
  checkStart,
} from './life-checks.ts'
import { checkMetrics } from './metrics-check.ts'
import { ObserverCheck } from './observer-checks.ts'

type Check = readonly [name: string, run: (subject: ConformanceSubject) => Promise<void>]

/** In this order; `skip` of the options names them. */
const CHECKS: readonly Check[] = [
  ['single', checkSingle],
  ['concurrent', checkConcurrent],
  ['logprobs', checkLogprobs],
  ['seed', checkSeed],
  ['embeddings', checkEmbeddings],
  ['errors', checkErrors],
  ['health', checkHealth],
  ['metrics', checkMetrics],
  ['stop-before-first', checkStopBeforeFirst],
  ['stop-in-middle', checkStopInMiddle],
  ['concurrent-stop', checkConcurrentStop],
  ['drop', checkDrop],
  ['abort', checkAbort],
  ['drain', checkDrain],
  ['cleanup', checkCleanup],
]

const CHECKS_WITHOUT_START: readonly Check[] = [
  ['before-start', checkBeforeStart],
  ['cleanup-without-start', checkCleanupWithoutStart],
]

export async function runConformance(
  factory: EngineFactory,
  options: ConformanceOptions = {},
): Promise<ConformanceReport> {
  const report = new ReportBuilder()
  const subject = new ConformanceSubject(await factory(), options, report)
  report.check('start')
  if (await checkStart(subject)) {
    subject.engine.observe?.(new ObserverCheck(report))
    await runChecks(CHECKS, subject)
  } else {
    // What failed to start must be able to go.
    await checkCleanupWithoutStart(subject, 'cleanup-failed')
  }
  await runChecks(CHECKS_WITHOUT_START, new ConformanceSubject(await factory(), options, report))
  return report.build()
}

async function runChecks(checks: readonly Check[], subject: ConformanceSubject): Promise<void> {
  for (const [name, run] of checks) {
    const reason = subject.options.skip?.[name]
    if (reason !== undefined) {
      subject.report.skip(name, reason)
      continue
    }
    subject.report.check(name)
    try {
      await run(subject)
    } catch (error) {
      subject.report.fail('stream-error', `in check '${name}': ${messageOf(error)}`)
    }
  }
}
