/**
 * What the frontend reports, as log lines: one JSON object per request at level `info`, failures at `warn`.
 *
 * Written synchronously to standard error, so that nothing is lost on a forced exit.
 */
import { destination, pino } from 'pino'
import type { Logger } from 'pino'
import type { FrontendObserver, RequestEnd, RequestFacts } from '../../frontend/index.ts'

export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug'

export function createLogger(level: LogLevel): Logger {
  return pino({ level, base: null }, destination({ fd: 2, sync: true }))
}

/** The observer that writes the lines. */
export function frontendLog(logger: Logger): FrontendObserver {
  return (event, request) => {
    switch (event.kind) {
      case 'ended':
        return tellEnd(logger, event, request)
      case 'migrated':
        return logger.warn({ ...request, ...event }, 'request goes on at another worker')
      case 'faulted':
        return logger.error({ requestId: request.requestId, err: event.error }, 'internal error')
      case 'backgroundFailed':
        return logger.warn({ requestId: request.requestId, ...event }, 'background task failed')
      default:
        // Several for every request: nothing is put together for a level that is off.
        if (logger.isLevelEnabled('trace')) {
          logger.trace({ ...request, ...event }, `request: ${event.kind}`)
        }
    }
  }
}

function tellEnd(logger: Logger, end: RequestEnd, request: RequestFacts): void {
  const level = end.outcome === 'error' && end.status >= 500 ? 'warn' : 'info'
  if (!logger.isLevelEnabled(level)) return
  const text = end.outcome !== 'error' ? 'ended' : level === 'warn' ? 'failed' : 'refused'
  logger[level]({ ...request, ...end }, `request ${text}`)
}
