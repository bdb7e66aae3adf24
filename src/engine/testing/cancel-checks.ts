/**
 * Checks of early ends of a stream: stop before the first item, stop and kill in the middle, some of many concurrent
 * streams, and a reader that leaves.
 */
import { RequestContext } from '../generate-context.ts'
import { ConcurrentReads } from './concurrent-reads.ts'
import type { ConformanceRule } from './conformance-rules.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { closeIterator, iteratorOf } from './stream-reader.ts'
import type { StreamOutcome } from './stream-reader.ts'
import { thrownText } from './thrown-text.ts'

/** Before the stream is opened, and after it is opened but not read. */
export async function checkStopBeforeFirst(subject: ConformanceSubject): Promise<void> {
  for (const isOpened of [false, true]) {
    const outcome = await subject.readLong(({ requestId }) => {
      const context = new RequestContext(requestId)
      if (!isOpened) context.stop()
      return { context, deadlineMs: subject.cancelDeadlineMs, onOpened: () => context.stop() }
    })
    judgeStopped(subject, outcome, 'cancellation-not-observed')
  }
}

export async function checkStopInMiddle(subject: ConformanceSubject): Promise<void> {
  if (skipsLong(subject, 'stop-in-middle')) return
  for (const kind of ['stop', 'kill'] as const) {
    let isStopped = false
    const outcome = await subject.readLong(({ requestId }) => {
      const context = new RequestContext(requestId)
      const end = (): void => {
        isStopped = true
        if (kind === 'stop') context.stop()
        else context.kill()
        // A second stop has no effect.
        context.stop()
      }
      return { context, onItem: (count) => (count === 2 ? end() : undefined) }
    })
    if (!isStopped) {
      if (subject.judgePlain(outcome))
        subject.report.skip('stop-in-middle', 'the output ended before it could be stopped')
      return
    }
    const late = kind === 'stop' ? 'cancellation-not-observed' : 'kill-not-observed'
    judgeStopped(subject, outcome, late)
  }
}

/** Stops four of eight concurrent streams; the others must not be affected. */
export async function checkConcurrentStop(subject: ConformanceSubject): Promise<void> {
  if (skipsLong(subject, 'concurrent-stop')) return
  const beside = new ConcurrentReads()
  const stopped: RequestContext[] = []
  const streams = Array.from({ length: 8 }, (_, i) => {
    const isStopped = i % 2 === 0
    const request = subject.request(isStopped ? subject.longOutput : 8)
    const context = new RequestContext(request.requestId)
    if (!isStopped) return subject.read(request, { context, beside })
    stopped.push(context)
    const onItem = (count: number): void => {
      if (count === 1) for (const each of stopped) each.stop()
    }
    return subject.read(request, { context, beside, onItem })
  })
  const outcomes = await Promise.all(streams)
  for (const [i, outcome] of outcomes.entries()) {
    if (i % 2 === 0) {
      // A reply of one item has ended before anything was stopped.
      if (stopped[i / 2]!.isStopped) judgeStopped(subject, outcome, 'cancellation-not-observed')
      else subject.judgePlain(outcome)
    } else judgeBeside(subject, outcome, 'cancel-hurts-others', 'stopped ones')
  }
}

/** A stream beside others that were stopped or aborted. */
export function judgeBeside(
  { report }: ConformanceSubject,
  { end, error, chunks }: StreamOutcome,
  rule: ConformanceRule,
  others: string,
): void {
  if (end === 'finish' && chunks.at(-1)?.finish !== 'cancelled') return
  const why = error === undefined ? end : thrownText(error)
  report.fail(rule, `a stream beside ${others}: ${why}`)
}

/** Drops more streams than the engine has places, after their first item; a new request must then still be served. */
export async function checkDrop(subject: ConformanceSubject): Promise<void> {
  if (skipsLong(subject, 'drop')) return
  const count = Math.min(64, (subject.config.maxNumSeqs ?? 16) + 4)
  for (let i = 0; i < count; i++) {
    if (!(await dropOne(subject))) return
  }
  const { end } = await subject.read(subject.request(8))
  if (end !== 'finish')
    subject.report.fail('drop-not-released', `after ${count} dropped streams: ${end}`)
}

async function dropOne(subject: ConformanceSubject): Promise<boolean> {
  const request = subject.request(subject.longOutput)
  const context = new RequestContext(request.requestId)
  const away = await subject.awayReason()
  if (away !== null) throw away
  const iterator = iteratorOf(subject.engine.generate(request, context))
  const first = await subject.within(iterator.next())
  if (first === undefined) {
    subject.report.fail('drop-not-released', 'after dropped streams a new one gets no item')
    return false
  }
  try {
    if (await subject.within(closeIterator(iterator), subject.cancelDeadlineMs)) return true
    subject.report.fail('drop-not-observed', `not closed within ${subject.cancelDeadlineMs} ms`)
  } catch (thrown) {
    subject.report.fail('drop-not-observed', `closing it gave ${thrownText(thrown)}`)
  }
  return false
}

function skipsLong(subject: ConformanceSubject, check: string): boolean {
  if (!subject.isPrefill) return false
  subject.report.skip(check, 'a prefill worker has one item only')
  return true
}

/** A terminal item that was requested before the stop may have any `finish`; the stream reader finds the others. */
function judgeStopped(
  subject: ConformanceSubject,
  outcome: StreamOutcome,
  late: ConformanceRule,
): void {
  const { end, chunks, error, brokenRule } = outcome
  const { report } = subject
  if (brokenRule === 'missing-terminal' && chunks.length === 0)
    report.fail('no-chunks', 'a stopped stream ended without any item')
  else if (brokenRule !== undefined) report.fail(brokenRule, thrownText(error))
  else if (end === 'deadline') report.fail(late, 'the stopped stream did not end in time')
  else if (end === 'error') {
    subject.judgeError(error)
    report.fail('stream-error', `a stopped stream ended in ${thrownText(error)}`)
  }
}
