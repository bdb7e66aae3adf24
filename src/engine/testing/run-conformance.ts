/**
 * The conformance kit: runs everything that Baton expects of an engine on a real engine.
 *
 * Independent of test frameworks: the caller asserts `report.passed` and prints `describeFailures(report)`. One
 * engine runs through all checks in order, as in a worker; a second one is never started.
 */
import { sleep } from '../../base/index.ts'
import { engineConfigFault } from '../config-fault.ts'
import { checkAbort } from './abort-check.ts'
import {
  checkConcurrentStop,
  checkDrop,
  checkStopBeforeFirst,
  checkStopInMiddle,
} from './cancel-checks.ts'
import { DEADLINE_MS } from './conformance-options.ts'
import type { ConformanceOptions, EngineFactory } from './conformance-options.ts'
import { ReportBuilder } from './conformance-report.ts'
import type { ConformanceReport } from './conformance-report.ts'
import type { ConformanceRule } from './conformance-rules.ts'
import { ConformanceSubject } from './conformance-subject.ts'
import { checkEmbeddings } from './embedding-check.ts'
import {
  checkBeforeStart,
  checkConcurrent,
  checkErrors,
  checkHealth,
  checkLogprobs,
  checkSeed,
  checkSingle,
  EMBEDS_ONLY,
} from './generate-checks.ts'
import {
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
import { thrownText } from './thrown-text.ts'
import { within } from './within.ts'
import type { Engine, EngineObserver } from '../engine.ts'
import { shown } from '../shown.ts'

interface Check {
  readonly name: string
  readonly run: (subject: ConformanceSubject) => Promise<void>
  /** Checks whose fault this check would find again under another name. */
  readonly needs?: readonly string[]
  /** The rule that is broken if the check itself throws, for example at a getter of the engine. Default `stream-error`. */
  readonly rule?: ConformanceRule
  /** Needs output, which an engine that makes embeddings only does not have. */
  readonly generates?: true
}

/** In this order; `skip` of the options names them. */
const CHECKS: readonly Check[] = [
  { name: 'observe', run: checkObserve, rule: 'observe-failed' },
  { name: 'single', run: checkSingle },
  { name: 'concurrent', run: checkConcurrent, needs: ['single'], generates: true },
  { name: 'mixed', run: checkMixed, needs: ['concurrent'], generates: true },
  { name: 'logprobs', run: checkLogprobs, needs: ['single'], generates: true },
  { name: 'seed', run: checkSeed, needs: ['single'], generates: true },
  { name: 'embeddings', run: checkEmbeddings, rule: 'embedding-wrong' },
  { name: 'errors', run: checkErrors, needs: ['single'] },
  {
    name: 'health',
    run: checkHealth,
    needs: ['single'],
    rule: 'health-check-failed',
    generates: true,
  },
  { name: 'kv-blocks', run: checkKvBlocks, needs: ['single'], rule: 'kv-blocks-invalid' },
  { name: 'metrics', run: checkMetrics, needs: ['single'], rule: 'metrics-failed' },
  { name: 'stop-before-first', run: checkStopBeforeFirst, needs: ['single'], generates: true },
  { name: 'stop-in-middle', run: checkStopInMiddle, needs: ['stop-before-first'], generates: true },
  {
    name: 'concurrent-stop',
    run: checkConcurrentStop,
    needs: ['concurrent', 'stop-in-middle'],
    generates: true,
  },
  { name: 'drop', run: checkDrop, needs: ['concurrent-stop'], generates: true },
  { name: 'abort', run: checkAbort, needs: ['single'], rule: 'abort-failed' },
  { name: 'held', run: checkHeld, rule: 'kv-event-malformed' },
  { name: 'quiescence', run: checkQuiescence, rule: 'quiescence-wrong' },
  { name: 'drain', run: checkDrain, rule: 'drain-failed' },
  { name: 'cleanup', run: checkCleanup, needs: ['drop'], rule: 'cleanup-failed' },
]

const CHECKS_WITHOUT_START: readonly Check[] = [
  { name: 'before-start', run: checkBeforeStart, needs: ['single', 'drop'] },
  {
    name: 'cleanup-without-start',
    run: checkCleanupWithoutStart,
    needs: ['cleanup'],
    rule: 'cleanup-without-start-failed',
  },
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
  const engine = await made(factory, options, report)
  if (engine === null) return
  const subject = new ConformanceSubject(engine, options, report)
  if (await checkStart(subject)) await runChecks(CHECKS, subject)
  // Even an engine that failed to start must be able to clean up.
  else await checkCleanupWithoutStart(subject, 'cleanup-failed')
  const second = await made(factory, options, report)
  if (second === null) return
  await runChecks(CHECKS_WITHOUT_START, new ConformanceSubject(second, options, report))
}

async function made(
  factory: EngineFactory,
  { clock, deadlineMs = DEADLINE_MS }: ConformanceOptions,
  report: ReportBuilder,
): Promise<Engine | null> {
  try {
    const making = (async () => ({ engine: await factory() }))()
    const answered = await within(clock, deadlineMs, making)
    if (answered === undefined)
      report.fail('start-failed', `no engine was made within ${deadlineMs} ms`)
    else if (typeof answered.engine === 'object' && answered.engine !== null) return answered.engine
    else report.fail('start-failed', `the factory made ${shown(answered.engine)}, not an engine`)
  } catch (error) {
    report.fail('start-failed', `no engine was made: ${thrownText(error)}`)
  }
  return null
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
    // What it reports may not even be readable, which must not throw into the engine.
    const guarded = (rule: ConformanceRule, judge: () => void): void => {
      try {
        judge()
      } catch (error) {
        subject.report.fail(rule, thrownText(error), 'observe')
      }
    }
    // All that a worker offers, also what is optional in the interface.
    const observer: Required<EngineObserver> = {
      kvEvents: (dpRank, events) =>
        guarded('kv-event-malformed', () => check.kvEvents(dpRank, events)),
      load: (report) => guarded('load-report-invalid', () => check.load(report)),
      unavailable: (reason) => subject.availability.set(reason),
      loraAdapters: (names) =>
        guarded('config-invalid', () => {
          const fault = engineConfigFault({ ...subject.config, loraAdapters: names })
          if (fault !== null) throw new Error(`${fault.field}: ${fault.detail}`)
        }),
    }
    subject.engine.observe?.(observer)
  } catch (error) {
    subject.report.fail('observe-failed', thrownText(error))
  }
}

async function runChecks(checks: readonly Check[], subject: ConformanceSubject): Promise<void> {
  for (const { name, run, needs = [], rule = 'stream-error', generates } of checks) {
    const broken = needs.find((other) => subject.report.hasFailed(other))
    if (broken !== undefined) subject.report.giveUp(name)
    const reason =
      subject.options.skip?.[name] ??
      (generates === true && subject.embedsOnly ? EMBEDS_ONLY : undefined) ??
      (broken === undefined ? undefined : `not tried: '${broken}' has failed`)
    if (reason !== undefined) {
      subject.report.skip(name, reason)
      continue
    }
    subject.report.check(name)
    try {
      await run(subject)
    } catch (error) {
      subject.report.fail(rule, `in check '${name}': ${thrownText(error)}`)
    }
  }
}
