/**
 * Unhandled errors of a user's engine, or of the model of a boostr worker: a rejected promise that it does not await, a
 * timer that throws, a socket without a listener for errors. Node would end the process with all its requests, and with
 * the frontend too under `--in-process`.
 *
 * Only an error of Baton's own still ends the process: one whose stack has calls of Baton and none of the user's
 * module. Errors of the system (a refused connection, a missing file) have no call of either.
 */
import { dirname, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PACKAGE_ROOT } from '../../os/index.ts'
import { spareErrors } from './last-words.ts'
import { callsOf, reportStray } from './stray-report.ts'
import type { StrayLog } from './stray-report.ts'

/** An engine that fails in a loop must not fill the disk with log lines. */
const REPORT_EVERY_MS = 1_000

/** Takes effect for the rest of the process. `module`: the path of the user's file; `kind`: what it is to the user. */
export function surviveStrayErrors(
  module: string,
  kind: 'engine' | 'module',
  logger: StrayLog,
): void {
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
    const facts = { [kind]: module, ...(unreported === 0 ? {} : { unreported }) }
    const text = `unhandled error of the ${kind}; a request that waits for it ends at its deadline`
    reportStray(logger, error, facts, text)
    unreported = 0
    return true
  }
  spareErrors(spares)
}

/** False for an error of Baton, which may be installed in the module's folder. */
export function isOfModule(error: unknown, folder: string): boolean {
  const calls = callsOf(error)
  const isInstalledAround = folder.startsWith(PACKAGE_ROOT + sep)
  const isModules = (call: string): boolean =>
    isIn(call, folder) && (isInstalledAround || !isIn(call, PACKAGE_ROOT + sep))
  return calls.some(isModules) || !calls.some((call) => isIn(call, PACKAGE_ROOT + sep))
}

function isIn(call: string, folder: string): boolean {
  return call.includes(folder) || call.includes(pathToFileURL(folder).href)
}
