/**
 * Logs what a worker reports. Problems that a user wants to know at once (KV that did not arrive, an engine that
 * hangs, a stage that took too long) are warnings, the rest is at lower levels.
 */
import type { Logger } from 'pino'
import { isSendersFault, loggedMessage } from '../../base/index.ts'
import type { ErrorValue } from '../../base/index.ts'
import type { WorkerEvent, WorkerObserver } from '../../worker/index.ts'

export function workerLog(logger: Logger): WorkerObserver {
  return (event) => {
    const { kind, ...facts } = event
    const level = levelOf(event)
    if (logger.isLevelEnabled(level)) {
      logger[level]({ event: kind, ...loggedFacts(facts) }, sentenceOf(event))
    }
  }
}

/** What happened, in words; a program reads the name of the event. */
function sentenceOf(event: WorkerEvent): string {
  switch (event.kind) {
    case 'state':
      return `the worker's state is now ${event.state}`
    case 'stage':
      return `shutdown stage ${spaced(event.stage)}: ${spaced(event.reason)}`
    case 'engine-away':
      return event.away
        ? 'the engine is unavailable: no new requests are accepted until it is back'
        : 'the engine is available again'
    case 'discovery-told':
      return event.registered
        ? 'the worker is registered in discovery again'
        : 'the entry in discovery has been removed'
    case 'canary':
      return event.healthy ? 'the test request succeeded' : 'the test request failed'
    default:
      return SENTENCES[event.kind]
  }
}

const spaced = (name: string): string => name.replaceAll('_', ' ')

const SENTENCES = {
  'request-refused': 'request refused',
  'request-started': 'request started',
  'request-ended': 'request ended',
  'engine-stalled': 'the engine has stopped responding',
  'engine-abort-failed': 'the engine failed to abort a request',
  'engine-fault': 'internal error of the engine',
  'kv-offered': 'KV blocks offered to a decode worker',
  'kv-released': 'KV blocks released',
  'kv-taken': 'KV blocks received from a prefill worker',
  'kv-recomputed': 'KV transfer failed: the prompt is computed again',
  'register-failed':
    'the worker could not be registered in discovery and gets no requests: this is repeated until it succeeds',
  'unregister-failed':
    'the entry in discovery could not be removed: this is repeated until it succeeds or the worker ends',
  'frontend-refused':
    'connection refused: the peer failed to authenticate or speaks another version',
  'turned-away':
    'a frontend sends no requests to this worker: it differs from the others of its model',
  'entry-restored': 'the entry in discovery had disappeared and was written again',
  'renewal-failed': 'the entry in discovery could not be renewed',
  'model-unreadable':
    "the files of the engine's model cannot be read here: its tokenizer is not compared with that of other workers",
} as const satisfies Partial<Record<WorkerEvent['kind'], string>>

/** Without the times of a request's phases, which its frontend logs. */
function loggedFacts(facts: object & Partial<Record<'times' | 'error', unknown>>): object {
  const error = facts.error as ErrorValue | undefined
  return {
    ...facts,
    ...('times' in facts ? { times: undefined } : {}),
    ...(error === undefined ? {} : { error: loggedError(error) }),
  }
}

/** Without the answer of an engine that failed, which may quote its prompt. */
function loggedError(error: ErrorValue): ErrorValue {
  const { answerBody, ...data } = error.data ?? {}
  const rest = answerBody === undefined ? {} : { data }
  return { ...error, ...rest, message: loggedMessage(error) }
}

function levelOf(event: WorkerEvent): 'debug' | 'info' | 'warn' | 'error' {
  switch (event.kind) {
    case 'engine-stalled':
    case 'engine-fault':
      return 'error'
    case 'kv-recomputed':
    case 'register-failed':
    case 'unregister-failed':
    case 'discovery-told':
    case 'engine-abort-failed':
    case 'frontend-refused':
    case 'turned-away':
    case 'entry-restored':
    case 'renewal-failed':
    case 'model-unreadable':
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
      return event.error === undefined || isSendersFault(event.error.code) ? 'debug' : 'warn'
    case 'kv-released':
      return event.reason === 'acknowledged' ? 'debug' : 'info'
    default:
      return 'debug'
  }
}
