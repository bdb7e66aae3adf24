/** Types of bundle.js, which plain Node runs before anything is built. */
export function isBundleStale(): boolean
export function isProgramStale(): boolean
export function bundle(): Promise<void>
export function bundleProgram(): Promise<readonly string[]>
