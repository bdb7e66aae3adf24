/**
 * Checks of the beginning and the end: start, abort of what is gone, drain, cleanup with live streams, again, and
 * without a start.
 */
import type { EngineConfig } from '../../request/index.ts'
import type { ConformanceRule } from './conformance-rules.ts'
import { messageOf, WORKER_ID } from './conformance-subject.ts'
import type { ConformanceSubject } from './conformance-subject.ts'

const POSITIVE = [
  'contextLength',
  'kvCacheBlockSize',
  'totalKvBlocks',
  'maxNumSeqs',
  'maxNumBatchedTokens',
  'dataParallelSize',
] as const satisfies readonly (keyof EngineConfig)[]

/** False: nothing else can be checked. */
export async function checkStart(subject: ConformanceSubject): Promise<boolean> {
  const { engine, report } = subject
  try {
    const config = await subject.within(engine.start(WORKER_ID))
    if (config === undefined) {
      report.fail('start-failed', `not started within ${subject.deadlineMs} ms`)
      return false
    }
    subject.config = config
  } catch (error) {
    report.fail('start-failed', messageOf(error))
    return false
  }
  const { config } = subject
  if (typeof config.model !== 'string' || config.model === '')
    report.fail('model-empty', 'the engine config has no model name')
  for (const name of POSITIVE) {
    const value = config[name]
    if (value !== undefined && !(Number.isSafeInteger(value) && value > 0))
      report.fail('config-invalid', `${name} is ${value}`)
  }
  return true
}

export async function checkAbort(subject: ConformanceSubject): Promise<void> {
  const { engine } = subject
  if (engine.abort === undefined) {
    subject.report.skip('abort', 'the engine has no abort')
    return
  }
  const request = subject.request(2)
  await subject.read(request)
  for (const id of [request.requestId, 'never-seen']) {
    const result = await subject.succeeds(() => engine.abort?.(id))
    if (result !== true) subject.report.fail('abort-failed', result)
  }
}

export async function checkDrain(subject: ConformanceSubject): Promise<void> {
  const { engine } = subject
  if (engine.drain === undefined) {
    subject.report.skip('drain', 'the engine has no drain')
    return
  }
  const result = await subject.succeeds(() => engine.drain?.())
  if (result !== true) subject.report.fail('drain-failed', result)
}

/** Cleans up while two streams are live, then once more. */
export async function checkCleanup(subject: ConformanceSubject): Promise<void> {
  const { engine, report } = subject
  let startedCount = 0
  let onStarted = (): void => undefined
  const bothStarted = new Promise<void>((resolve) => {
    onStarted = () => {
      startedCount += 1
      if (startedCount === 2) resolve()
    }
  })
  const live = Promise.all(
    [0, 1].map(() =>
      subject.read(subject.request(subject.longOutput), {
        onItem: (count) => (count === 1 ? onStarted() : undefined),
      }),
    ),
  )
  await subject.within(Promise.race([bothStarted, live.then(() => undefined)]))
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
