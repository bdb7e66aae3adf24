/**
 * Logs what the frontend reports: one line per request at level `info`, failures at `warn`.
 *
 * JSON, or readable lines when standard error is a terminal.
 */
import { writeSync } from 'node:fs'
import { pino } from 'pino'
import type { Logger } from 'pino'
import { roundedMs, withoutKeys } from '../../base/index.ts'
import { takesColor } from '../../os/index.ts'
import { logDestination } from './log-destination.ts'
import { logLine } from './log-line.ts'
import { RequestPhases } from './request-phases.ts'
import type { FrontendObserver, RequestEnd, RequestFacts } from '../../frontend/index.ts'

export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug'

const STANDARD_ERROR = 2

export function createLogger(level: LogLevel): Logger {
  const { isTTY } = process.stderr
  const hooks = { streamWrite: withoutKeys }
  return pino({ level, base: null, hooks }, isTTY ? forPeople() : logDestination(STANDARD_ERROR))
}

function forPeople(): { write(json: string): void } {
  const hasColor = takesColor(process.stderr)
  return {
    write: (json) => {
      const line = logLine(json, hasColor)
      try {
        writeSync(STANDARD_ERROR, line)
      } catch {
        // A slow terminal gets the line later; a closed one does not end the server.
        process.stderr.write(line)
      }
    },
  }
}

/** The observer that writes the lines. */
export function frontendLog(logger: Logger): FrontendObserver {
  const phases = logger.isLevelEnabled('info') ? new RequestPhases() : null
  // Read once, because every request has several events that are logged only at this level.
  const isTraced = logger.isLevelEnabled('trace')
  return (event, request) => {
    const known = phases?.observe(event, request.requestId) ?? NOTHING
    switch (event.kind) {
      case 'ended':
        return tellEnd(logger, event, request, known)
      case 'migrated':
        return logger.warn({ ...request, ...event }, 'request is continued on another worker')
      case 'faulted':
        return logger.error({ requestId: request.requestId, err: event.error }, 'internal error')
      case 'backgroundFailed':
        return logger.warn({ requestId: request.requestId, ...event }, 'background task failed')
      case 'batchGivenUp':
        return logger.warn(event, 'batch is given up: another frontend continues it')
      default:
        if (isTraced) logger.trace({ ...request, ...event }, `request: ${event.kind}`)
    }
  }
}

const NOTHING = {}

function tellEnd(logger: Logger, end: RequestEnd, request: RequestFacts, known: object): void {
  const level = end.outcome === 'error' && end.status >= 500 ? 'warn' : 'info'
  if (!logger.isLevelEnabled(level)) return
  const { kind: _, atMs: __, ...facts } = end
  const text = end.outcome !== 'error' ? 'ended' : level === 'warn' ? 'failed' : 'refused'
  // Faster than spreads, of which all but the first call into V8's runtime for each member.
  const line = Object.assign({}, request, known, facts, {
    durationMs: rounded(facts.durationMs),
    preprocessMs: rounded(facts.preprocessMs),
    ttftMs: rounded(facts.ttftMs),
    itlMs: rounded(facts.itlMs),
  })
  logger[level](line, `request ${text}`)
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : roundedMs(ms)
}
