/**
 * The version of this package, read from its own package.json.
 */
import { createRequire } from 'node:module'

const manifest = createRequire(import.meta.url)('../../package.json') as { version: string }

export const BATON_VERSION = manifest.version
