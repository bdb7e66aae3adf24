/** Types of bundle.js, which plain Node runs before anything is built. */
export function isBundleStale(): boolean
export function bundle(): Promise<void>
