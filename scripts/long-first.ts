/**
 * Order of test files: the longest start first, so that none of them is left for the end, when the other workers have nothing
 * to do. Vitest itself starts large files first, because a fresh clone has no times of an earlier run.
 */
import { BaseSequencer } from 'vitest/node'
import type { TestSpecification } from 'vitest/node'

/** Parts of paths, longest first: simulated fleets, real processes and sockets with deadlines. */
const LONG = [
  'src/sim/fleet/',
  'test/upstream/push',
  'test/upstream/unreadable',
  'src/discovery/',
  'test/forward/leaving',
  'test/npm-start',
]

export class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONG.findIndex((part) => moduleId.includes(part))
      return at < 0 ? LONG.length : at
    }
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}
