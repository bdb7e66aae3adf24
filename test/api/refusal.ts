import { BatonError } from '../../src/base/index.ts'

/** The refusal that `run` throws, or null if it accepts. Any other error is rethrown. */
export function refusal(run: () => unknown): BatonError | null {
  try {
    run()
    return null
  } catch (thrown) {
    if (thrown instanceof BatonError) return thrown
    throw thrown
  }
}
