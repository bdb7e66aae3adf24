/**
 * Checks of start and end: start, drain, cleanup with live streams, repeated cleanup, and
 * cleanup without start.
 */
import { engineConfigFault } from '../config-fault.ts'
import { shown } from '../shown.ts'
import type { ConformanceRule } from './conformance-rules.ts'
import { SHORT_OUTPUT, WORKER_ID } from './conformance-subject.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { thrownText } from './thrown-text.ts'

/** False: nothing else can be checked. */
export async function checkStart(subject: ConformanceSubject): Promise<boolean> {
  const { engine, report } = subject
  try {
    // Wrapped in a record, because an engine may resolve with undefined.
    const started = await subject.within(
      Promise.resolve(engine.start(WORKER_ID)).then((config) => ({ config })),
    )
    if (started === undefined) {
      report.fail('start-failed', `not started within ${subject.deadlineMs} ms`)
      return false
    }
    const fault = engineConfigFault(started.config)
    if (fault === null) {
      subject.config = started.config
      return true
    }
    // A worker would not start either.
    report.fail(fault.field === 'model' ? 'model-empty' : 'config-invalid', fault.detail)
    return false
  } catch (error) {
    report.fail('start-failed', thrownText(error))
    return false
  }
}

export async function checkQuiescence({ engine, report }: ConformanceSubject): Promise<void> {
  if (engine.isQuiescent === undefined) {
    report.skip('quiescence', 'the engine does not tell')
    return
  }
  try {
    const isQuiescent: unknown = engine.isQuiescent()
    if (typeof isQuiescent !== 'boolean' && isQuiescent !== null)
      report.fail('quiescence-wrong', shown(isQuiescent))
  } catch (error) {
    report.fail('quiescence-wrong', thrownText(error))
  }
}

export async function checkDrain(subject: ConformanceSubject): Promise<void> {
  const { engine } = subject
  if (engine.drain === undefined) {
    subject.report.skip('drain', 'the engine has no drain')
    return
  }
  const drain = () =>
    subject.succeeds(() => {
      const drained: unknown = engine.drain?.()
      if (isPromise(drained)) return drained
      throw new Error(`drain returned ${shown(drained)}, not a promise`)
    })
  const result = hasSoundStreams(subject) ? await drainBeside(subject, drain) : await drain()
  if (result !== true) subject.report.fail('drain-failed', result)
}

/** Otherwise a stream may end for another reason, which has been reported. */
function hasSoundStreams({ embedsOnly, report }: ConformanceSubject): boolean {
  return (
    !embedsOnly && !['single', 'concurrent', 'drop', 'abort'].some((each) => report.hasFailed(each))
  )
}

/** A worker drains while its requests run, and waits for them. */
async function drainBeside(
  subject: ConformanceSubject,
  drain: () => Promise<true | string>,
): Promise<true | string> {
  let draining: Promise<true | string> | null = null
  const onItem = (): void => {
    draining ??= drain()
  }
  const { end, error, chunks } = await subject.read(subject.request(SHORT_OUTPUT), { onItem })
  const result = await (draining ?? drain())
  if (result !== true || draining === null) return result
  if (end === 'finish' && chunks.at(-1)?.finish !== 'cancelled') return true
  return `a stream that ran did not end by itself: ${error === undefined ? end : thrownText(error)}`
}

/** Also one of another realm, or with nothing but `then`, for which a worker waits, too. */
function isPromise(value: unknown): value is Promise<unknown> {
  return typeof (value as Partial<Promise<unknown>> | null | undefined)?.then === 'function'
}

/** Cleans up while two streams are live, then once more. */
export async function checkCleanup(subject: ConformanceSubject): Promise<void> {
  const { engine, report, config } = subject
  // The other one waits in the engine.
  const startedMax = Math.min(2, config.maxNumSeqs ?? 2)
  let startedCount = 0
  let onStarted = (): void => undefined
  const allStarted = new Promise<void>((resolve) => {
    onStarted = () => {
      startedCount += 1
      if (startedCount === startedMax) resolve()
    }
  })
  const live = Promise.all(
    [0, 1].map(() =>
      subject.read(subject.request(subject.longOutput), {
        // Longer than all that this check waits for.
        deadlineMs: 3 * subject.deadlineMs + subject.cancelDeadlineMs,
        onItem: (count) => (count === 1 ? onStarted() : undefined),
      }),
    ),
  )
  await subject.within(Promise.race([allStarted, live.then(() => undefined)]))
  const first = await subject.succeeds(() => engine.cleanup())
  if (first !== true) report.fail('cleanup-failed', first)
  const outcomes = await subject.within(live, subject.cancelDeadlineMs)
  if (outcomes === undefined)
    report.fail('cleanup-leaves-streams', 'a live stream did not end with the engine')
  else {
    for (const { end, error } of outcomes) if (end === 'error') subject.judgeError(error)
  }
  const second = await subject.succeeds(() => engine.cleanup())
  if (second !== true) report.fail('second-cleanup-failed', second)
}

export async function checkCleanupWithoutStart(
  subject: ConformanceSubject,
  rule: ConformanceRule = 'cleanup-without-start-failed',
): Promise<void> {
  const result = await subject.succeeds(() => subject.engine.cleanup())
  if (result !== true) subject.report.fail(rule, result)
}
