/** Global set-up of the tests: builds the bundle that tests start from the current sources. */
import { fileURLToPath } from 'node:url'
import { bundle, isBundleStale } from '../scripts/bundle.js'

export async function setup(): Promise<void> {
  if (isBundleStale()) await bundle()
  // Not named `BATON_…`: programs that tests start inherit the variable, and Baton refuses unknown `BATON_…`
  // variables.
  process.env['TEST_ENGINE_THREAD'] = fileURLToPath(
    new URL('../dist/bin/engine-thread-main.js', import.meta.url),
  )
  // For the test processes and for their child processes.
  const flags = fileURLToPath(new URL('child-flags.cjs', import.meta.url))
  process.env['NODE_OPTIONS'] = `${process.env['NODE_OPTIONS'] ?? ''} --require "${flags}"`.trim()
}
