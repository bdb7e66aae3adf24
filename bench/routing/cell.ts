/**
 * A child process of `bench/routing-quality.ts`: runs the cells that it receives, with one line of JSON for each.
 */
import { createInterface } from 'node:readline'
import { settle } from '../../src/os/index.ts'
import { runFleet } from '../../src/sim/index.ts'
import type { FleetReport } from '../../src/sim/index.ts'
import { qualityLoads } from './loads.ts'
import { randomLoads } from './random-loads.ts'
import { POLICIES } from './policies.ts'

export interface CellOrder {
  /** Index in `qualityLoads`, or the number of a random load. */
  readonly load: number
  readonly isRandom: boolean
  /** A name of `POLICIES`; with `#n` behind it, ties are broken in another way (n-th copy of the policy). */
  readonly policy: string
  readonly seed: number
  readonly requests: number
}

const COPY_SEEDS = 1000

export const METRICS = ['ttft', 'p99', 'e2e', 'good'] as const
export type Metric = (typeof METRICS)[number]
export type CellFigures = Readonly<Record<Metric | 'reuse' | 'completed', number>>

async function runCell(order: CellOrder): Promise<CellFigures> {
  const { load, isRandom, policy, seed, requests } = order
  const chosen = isRandom ? randomLoads(load, 1)[0]! : qualityLoads()[load]!
  const { router, ...run } = chosen.make(seed, requests)
  const [name = '', copy = 0] = policy.split('#')
  const report = await runFleet({
    ...run,
    // All requests wait, because refused requests would make the others look faster.
    router: { ...router, ...POLICIES[name], deadlines: { overloadWaitMs: 0, queueMs: 0 } },
    seed: seed + COPY_SEEDS * Number(copy),
    settle,
  })
  return figuresOf(report)
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
