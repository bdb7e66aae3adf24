/**
 * Checks of `abort`: of a request that has ended and of an unknown one, alone and while others run, and of a running one
 * beside others. Ids of the others begin with the aborted one's, which an engine may compare only in part.
 */
import { RequestContext } from '../generate-context.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { judgeBeside } from './cancel-checks.ts'
import { ConcurrentReads } from './concurrent-reads.ts'
import { SHORT_OUTPUT } from './conformance-subject.ts'
import type { ConformanceSubject } from './conformance-subject.ts'

const OTHERS = 3
const ABORTED = 'an aborted one'

export async function checkAbort(subject: ConformanceSubject): Promise<void> {
  const { engine, report } = subject
  if (engine.abort === undefined) {
    report.skip('abort', 'the engine has no abort')
    return
  }
  const ended = subject.request(2)
  await subject.read(ended)
  const ids = [ended.requestId, 'never-seen']
  for (const id of ids) await abort(subject, id)
  // Faults of streams that run at the same time have been found by then, under their own names.
  if (subject.embedsOnly || report.hasFailed('drop') || refusesOthers(subject)) return
  await abortBesideOthers(subject, ids)
  if (!subject.isPrefill) await abortRunning(subject)
}

/** Whoever tests an engine that serves one stream, and refuses others meanwhile, skips the checks of several. */
function refusesOthers({ options: { skip = {} } }: ConformanceSubject): boolean {
  return ['concurrent', 'concurrent-stop'].some((check) => skip[check] !== undefined)
}

async function abort(subject: ConformanceSubject, id: string): Promise<void> {
  const result = await subject.succeeds(() => subject.engine.abort?.(id))
  if (result !== true) subject.report.fail('abort-failed', result)
}

async function abortBesideOthers(
  subject: ConformanceSubject,
  ids: readonly string[],
): Promise<void> {
  const beside = new ConcurrentReads()
  const aborting: Promise<void>[] = []
  const onItem = (): void => {
    if (aborting.length === 0) aborting.push(...ids.map((id) => abort(subject, id)))
  }
  const outcomes = await Promise.all(
    othersOf(subject, ids[0]!).map((request) => subject.read(request, { beside, onItem })),
  )
  await Promise.all(aborting)
  for (const outcome of outcomes) judgeBeside(subject, outcome, 'abort-failed', ABORTED)
}

/** As a worker does: the stop first. How the stream itself ends is checked without `abort`. */
async function abortRunning(subject: ConformanceSubject): Promise<void> {
  const beside = new ConcurrentReads()
  const request = subject.request(subject.longOutput)
  const context = new RequestContext(request.requestId)
  const aborting: Promise<void>[] = []
  const onItem = (): void => {
    if (aborting.length > 0) return
    context.stop()
    aborting.push(abort(subject, request.requestId))
  }
  const others = othersOf(subject, request.requestId).map((other) =>
    subject.read(other, { beside }),
  )
  const running = subject.read(request, { context, beside, onItem })
  for (const outcome of await Promise.all(others)) {
    judgeBeside(subject, outcome, 'cancel-hurts-others', ABORTED)
  }
  await running
  await Promise.all(aborting)
}

function othersOf(subject: ConformanceSubject, id: string): readonly GenerateRequest[] {
  return Array.from({ length: OTHERS }, (_, i) =>
    subject.request(SHORT_OUTPUT, { requestId: `${id}-${i}` }),
  )
}
