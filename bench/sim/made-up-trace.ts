/**
 * The default workload of the fleet benchmarks without a trace: prompts of 64 groups, each with its own prefix.
 */
import { sharedPrefixWorkload } from '../../src/sim/index.ts'
import type { TraceRequest } from '../../src/sim/index.ts'

export function madeUpTrace(requests: number, speedup: number): TraceRequest[] {
  return sharedPrefixWorkload({
    requests,
    groups: 64,
    prefixBlocks: 12,
    questionTokens: 700,
    outputTokens: 300,
    requestsPerSecond: 4 * speedup,
    seed: 1,
  })
}
