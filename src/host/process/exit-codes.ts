/**
 * The exit codes of Baton's processes besides 0, as their supervisor reads them.
 */
import type { BatonError } from '../../base/index.ts'

/** The process failed to do what it was started for. */
export const EXIT_FAILED = 1
/** The arguments or the configuration are wrong; a restart does not help. */
export const EXIT_MISUSED = 2
/** The process ended without an orderly shutdown: a second signal, a missed deadline, an engine that hangs. */
export const EXIT_IN_HASTE = 70

/** The exit code of a process that ends because of this error; the same for all commands. */
export function exitCodeOf({ code }: BatonError): number {
  return code === 'config.invalid' || code === 'request.invalid_argument'
    ? EXIT_MISUSED
    : EXIT_FAILED
}
