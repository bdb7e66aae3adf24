/**
 * A child process of `bench/routing-quality.ts`: runs the cells that it receives, with one line of JSON for each.
 */
import { createInterface } from 'node:readline'
import { seededRandom } from '../../src/base/index.ts'
import { settle } from '../../src/os/index.ts'
import { runFleet } from '../../src/sim/index.ts'
import type { FleetReport, TraceRequest } from '../../src/sim/index.ts'
import type { CellFigures } from './figures.ts'
import { qualityLoads } from './loads.ts'
import { lowerBound } from './lower-bound.ts'
import { randomLoads } from './random-loads.ts'
import { BOUND, POLICIES } from './policies.ts'

export interface CellOrder {
  /** Index in `qualityLoads`, or the number of a random load. */
  readonly load: number
  readonly isRandom: boolean
  /** A name of `POLICIES`, one of them `repeated`, or `BOUND`. */
  readonly policy: string
  readonly seed: number
  readonly requests: number
}

const REPEATED_SEEDS = 1000

async function runCell(order: CellOrder): Promise<CellFigures> {
  const { load, isRandom, policy, seed, requests } = order
  const chosen = isRandom ? randomLoads(load, 1)[0]! : qualityLoads()[load]!
  const { router, trace, ...run } = chosen.make(seed, requests)
  if (policy === BOUND) return lowerBound({ ...run, trace })
  const [name = '', nth] = policy.split('#')
  const runSeed = seed + REPEATED_SEEDS * Number(nth ?? 0)
  const report = await runFleet({
    ...run,
    trace: nth === undefined ? trace : slightlyLater(trace, runSeed),
    // All requests wait, because refused requests would make the others look faster.
    router: { ...router, ...POLICIES[name], deadlines: { overloadWaitMs: 0, queueMs: 0 } },
    seed: runSeed,
    settle,
  })
  return figuresOf(report)
}

/** By up to a millisecond, as networks do. Otherwise repetitions without ties would be equal to the last digit. */
function slightlyLater(trace: readonly TraceRequest[], seed: number): TraceRequest[] {
  const random = seededRandom(seed)
  return trace.map(({ atMs, delayMs, ...request }) => ({
    ...request,
    atMs: atMs + random.next(),
    ...(delayMs === undefined ? {} : { delayMs: delayMs + random.next() }),
  }))
}

const figuresOf = ({ ttftMs, e2eMs, good, blockReuse, completed, requests }: FleetReport) => ({
  ttft: ttftMs.mean,
  p99: ttftMs.p99,
  e2e: e2eMs.mean,
  good,
  reuse: blockReuse,
  completed: completed / requests,
})

for await (const line of createInterface({ input: process.stdin })) {
  const figures = await runCell(JSON.parse(line) as CellOrder)
  process.stdout.write(`${JSON.stringify(figures)}\n`)
}
