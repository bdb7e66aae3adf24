/**
 * Logs what a worker reports. Problems that a user wants to know at once (KV that did not arrive, an engine that
 * hangs, a stage that took too long) are warnings, the rest is at lower levels.
 */
import type { Logger } from 'pino'
import { ERROR_CODES, loggedMessage } from '../../base/index.ts'
import type { ErrorValue } from '../../base/index.ts'
import type { WorkerEvent, WorkerObserver } from '../../worker/index.ts'

export function workerLog(logger: Logger): WorkerObserver {
  return (event) => {
    const { kind, ...facts } = event
    const level = levelOf(event)
    if (logger.isLevelEnabled(level)) logger[level](loggedFacts(facts), `worker: ${kind}`)
  }
}

/** Without the times of a request's phases, which its frontend logs. */
function loggedFacts(facts: object & Partial<Record<'times' | 'error', unknown>>): object {
  const error = facts.error as ErrorValue | undefined
  return {
    ...facts,
    ...('times' in facts ? { times: undefined } : {}),
    ...(error === undefined ? {} : { error: { ...error, message: loggedMessage(error) } }),
  }
}

function levelOf(event: WorkerEvent): 'debug' | 'info' | 'warn' | 'error' {
  switch (event.kind) {
    case 'engine-stalled':
    case 'engine-fault':
      return 'error'
    case 'kv-recomputed':
    case 'unregister-failed':
    case 'engine-abort-failed':
    case 'frontend-refused':
    case 'turned-away':
    case 'entry-restored':
    case 'renewal-failed':
      return 'warn'
    case 'canary':
      return event.healthy ? 'debug' : 'warn'
    case 'engine-away':
      return event.away ? 'warn' : 'info'
    case 'stage':
      return event.reason === 'timed_out' || event.note !== undefined ? 'warn' : 'info'
    case 'state':
      return 'info'
    case 'request-ended':
      // An invalid request is its sender's fault; a failing engine concerns the operator.
      return event.error === undefined || ERROR_CODES[event.error.code].httpStatus < 500
        ? 'debug'
        : 'warn'
    case 'kv-released':
      return event.reason === 'acknowledged' ? 'debug' : 'info'
    default:
      return 'debug'
  }
}
