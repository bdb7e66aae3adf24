/**
 * What the frontend reports, as log lines: one JSON object per request at level `info`, failures at `warn`.
 *
 * Written synchronously to standard error, so that nothing is lost when the process ends in haste.
 */
import { destination, pino } from 'pino'
import type { Logger } from 'pino'
import type { FrontendObserver, RequestEnd } from '../frontend/index.ts'

export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug'

export function createLogger(level: LogLevel): Logger {
  return pino({ level, base: null }, destination({ fd: 2, sync: true }))
}

export class FrontendLog implements FrontendObserver {
  readonly #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
  }

  requestEnded(end: RequestEnd): void {
    if (end.outcome !== 'error') this.#logger.info(end, 'request ended')
    else if (end.status >= 500) this.#logger.warn(end, 'request failed')
    else this.#logger.info(end, 'request refused')
  }

  migrated: NonNullable<FrontendObserver['migrated']> = (migration) => {
    this.#logger.warn(migration, 'request goes on at another worker')
  }

  faulted: NonNullable<FrontendObserver['faulted']> = (requestId, error) => {
    this.#logger.error({ requestId, err: error }, 'fault of ours')
  }

  backgroundFailed: NonNullable<FrontendObserver['backgroundFailed']> = (what, code, message) => {
    this.#logger.warn({ what, code, message }, 'background work failed')
  }
}

/** Several observers as one; each call reaches all, in order. */
export function observeWithAll(observers: readonly FrontendObserver[]): FrontendObserver {
  return {
    requestStarted: (facts) => {
      for (const observer of observers) observer.requestStarted?.(facts)
    },
    routed: (leg) => {
      for (const observer of observers) observer.routed?.(leg)
    },
    firstToken: (facts, ttftMs) => {
      for (const observer of observers) observer.firstToken?.(facts, ttftMs)
    },
    migrated: (migration) => {
      for (const observer of observers) observer.migrated?.(migration)
    },
    requestEnded: (end) => {
      for (const observer of observers) observer.requestEnded?.(end)
    },
    faulted: (requestId, error) => {
      for (const observer of observers) observer.faulted?.(requestId, error)
    },
    backgroundFailed: (what, code, message) => {
      for (const observer of observers) observer.backgroundFailed?.(what, code, message)
    },
  }
}
