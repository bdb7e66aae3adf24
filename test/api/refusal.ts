import { BatonError } from '../../src/base/index.ts'

/** What `run` refuses with; null when it accepts. Any other fault comes out. */
export function refusal(run: () => unknown): BatonError | null {
  try {
    run()
    return null
  } catch (thrown) {
    if (thrown instanceof BatonError) return thrown
    throw thrown
  }
}
