/**
 * What the processes of Baton exit with, beside 0: read by their supervisor.
 */

/** It could not do what it was started for. */
export const EXIT_FAILED = 1
/** The arguments or the configuration are wrong; starting it again does not help. */
export const EXIT_MISUSED = 2
/** It ended without waiting: a second signal, an overstayed budget, an engine that hangs. */
export const EXIT_IN_HASTE = 70
