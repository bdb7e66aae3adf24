/**
 * The conformance kit: runs everything that Baton expects of an engine on a real engine.
 *
 * Independent of test frameworks: the caller asserts `report.passed` and prints `describeFailures(report)`. One
 * engine runs through all checks in order, as in a worker; a second one is never started.
 */
import { sleep } from '../../base/index.ts'
import {
  checkConcurrentStop,
  checkDrop,
  checkStopBeforeFirst,
  checkStopInMiddle,
} from './cancel-checks.ts'
import type { ConformanceOptions, EngineFactory } from './conformance-options.ts'
import { ReportBuilder } from './conformance-report.ts'
import type { ConformanceReport } from './conformance-report.ts'
import { ConformanceSubject, thrownText } from './conformance-subject.ts'
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
  checkQuiescence,
  checkStart,
} from './life-checks.ts'
import { checkKvBlocks } from './kv-blocks-check.ts'
import { checkMetrics } from './metrics-check.ts'
import { checkMixed } from './mixed-check.ts'
import { ObserverCheck } from './observer-checks.ts'
import { StrayErrors } from './stray-errors.ts'
import type { Engine } from '../engine.ts'

type Check = readonly [
  name: string,
  run: (subject: ConformanceSubject) => Promise<void>,
  /** Checks whose fault this check would find again under another name. */
  needs?: readonly string[],
]

/** In this order; `skip` of the options names them. */
const CHECKS: readonly Check[] = [
  ['observe', checkObserve],
  ['single', checkSingle],
  ['concurrent', checkConcurrent, ['single']],
  ['mixed', checkMixed, ['concurrent']],
  ['logprobs', checkLogprobs, ['single']],
  ['seed', checkSeed, ['single']],
  ['embeddings', checkEmbeddings],
  ['errors', checkErrors, ['single']],
  ['health', checkHealth, ['single']],
  ['kv-blocks', checkKvBlocks, ['single']],
  ['metrics', checkMetrics, ['single']],
  ['stop-before-first', checkStopBeforeFirst, ['single']],
  ['stop-in-middle', checkStopInMiddle, ['stop-before-first']],
  ['concurrent-stop', checkConcurrentStop, ['concurrent', 'stop-in-middle']],
  ['drop', checkDrop, ['concurrent-stop']],
  ['abort', checkAbort, ['single']],
  ['held', checkHeld],
  ['quiescence', checkQuiescence],
  ['drain', checkDrain],
  ['cleanup', checkCleanup, ['drop']],
]

const CHECKS_WITHOUT_START: readonly Check[] = [
  ['before-start', checkBeforeStart, ['single', 'drop']],
  ['cleanup-without-start', checkCleanupWithoutStart, ['cleanup']],
]

const LATE_MS = 20

export async function runConformance(
  factory: EngineFactory,
  options: ConformanceOptions = {},
): Promise<ConformanceReport> {
  const report = new ReportBuilder()
  const stray = new StrayErrors((event, thrown) =>
    report.fail('stray-error', `${event}: ${thrownText(thrown)}`, 'stray'),
  )
  try {
    await runAll(factory, options, report)
    // Promises and timers left behind fail in a later turn of the event loop.
    if (options.clock !== undefined) await sleep(options.clock, LATE_MS)
  } finally {
    stray.close()
  }
  return report.build()
}

async function runAll(
  factory: EngineFactory,
  options: ConformanceOptions,
  report: ReportBuilder,
): Promise<void> {
  report.check('start')
  const engine = await made(factory, report)
  if (engine === null) return
  const subject = new ConformanceSubject(engine, options, report)
  if (await checkStart(subject)) await runChecks(CHECKS, subject)
  // Even an engine that failed to start must be able to clean up.
  else await checkCleanupWithoutStart(subject, 'cleanup-failed')
  const second = await made(factory, report)
  if (second === null) return
  await runChecks(CHECKS_WITHOUT_START, new ConformanceSubject(second, options, report))
}

async function made(factory: EngineFactory, report: ReportBuilder): Promise<Engine | null> {
  try {
    return await factory()
  } catch (error) {
    report.fail('start-failed', `no engine was made: ${thrownText(error)}`)
    return null
  }
}

async function checkHeld(subject: ConformanceSubject): Promise<void> {
  const { engine, report, config } = subject
  if (engine.heldKv === undefined) {
    report.skip('held', 'the worker keeps the books')
    return
  }
  const check = new ObserverCheck(report, () => config)
  const { dataParallelStartRank: from = 0, dataParallelSize: ranks = 1 } = config
  for (let rank = from; rank < from + ranks; rank++) {
    try {
      check.held(rank, engine.heldKv(rank))
    } catch (error) {
      report.fail('kv-event-malformed', thrownText(error))
    }
  }
}

async function checkObserve(subject: ConformanceSubject): Promise<void> {
  try {
    const check = new ObserverCheck(subject.report, () => subject.config)
    // Destructured in some engines, so the methods must not depend on `this`.
    subject.engine.observe?.({
      kvEvents: (dpRank, events) => check.kvEvents(dpRank, events),
      load: (report) => check.load(report),
    })
  } catch (error) {
    subject.report.fail('observe-failed', thrownText(error))
  }
}

async function runChecks(checks: readonly Check[], subject: ConformanceSubject): Promise<void> {
  for (const [name, run, needs = []] of checks) {
    const broken = needs.find((other) => subject.report.hasFailed(other))
    if (broken !== undefined) subject.report.giveUp(name)
    const reason =
      subject.options.skip?.[name] ??
      (broken === undefined ? undefined : `not tried: '${broken}' has failed`)
    if (reason !== undefined) {
      subject.report.skip(name, reason)
      continue
    }
    subject.report.check(name)
    try {
      await run(subject)
    } catch (error) {
      subject.report.fail('stream-error', `in check '${name}': ${thrownText(error)}`)
    }
  }
}
