/**
 * Unhandled errors of a user's engine: a rejected promise that it does not await, a timer that throws. Node would
 * end the process with all its requests, and with the frontend too under `--in-process`.
 *
 * Only errors whose stack contains the user's module, and values without a stack, are caught; an error of Baton's
 * own still ends the process.
 */
import { dirname, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Logger } from 'pino'
import { PACKAGE_ROOT } from '../../os/index.ts'
import { spareErrors } from './last-words.ts'

/** An engine that fails in a loop must not fill the disk with log lines. */
const REPORT_EVERY_MS = 1_000

/** Takes effect for the rest of the process. `module`: the path of the user's file. */
export function surviveStrayErrors(module: string, logger: Logger): void {
  const folder = dirname(module) + sep
  let reportedMs = -Infinity
  let unreported = 0
  const spares = (error: unknown): boolean => {
    if (!isOfModule(error, folder)) return false
    const nowMs = performance.now()
    if (nowMs - reportedMs < REPORT_EVERY_MS) {
      unreported += 1
      return true
    }
    reportedMs = nowMs
    const err = error instanceof Error ? error : new Error(String(error))
    logger.error(
      { err, engine: module, ...(unreported === 0 ? {} : { unreported }) },
      'unhandled error of the engine; a request that waits for it ends at its deadline',
    )
    unreported = 0
    return true
  }
  spareErrors(spares)
}

/** True when a call on its stack is in a file of the folder and not in Baton, which may be installed there. */
export function isOfModule(error: unknown, folder: string): boolean {
  if (!(error instanceof Error)) return true
  const url = pathToFileURL(folder).href
  const calls = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return calls.some((call) => {
    if (!call.includes(folder) && !call.includes(url)) return false
    return !call.includes(PACKAGE_ROOT + sep) || folder.startsWith(PACKAGE_ROOT + sep)
  })
}
