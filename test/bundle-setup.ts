/** Before any test: the program that tests start is made of today's sources. */
import { fileURLToPath } from 'node:url'
import { bundle, isBundleStale } from '../scripts/bundle.js'

export async function setup(): Promise<void> {
  if (isBundleStale()) await bundle()
  // Not `BATON_…`: programs that tests start inherit it, and refuse variables that they do not know.
  process.env['TEST_ENGINE_THREAD'] = fileURLToPath(
    new URL('../dist/bin/engine-thread-main.js', import.meta.url),
  )
  // For them, and for what they start in turn.
  const flags = fileURLToPath(new URL('child-flags.cjs', import.meta.url))
  process.env['NODE_OPTIONS'] = `${process.env['NODE_OPTIONS'] ?? ''} --require "${flags}"`.trim()
}
