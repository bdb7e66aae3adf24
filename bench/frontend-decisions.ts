/**
 * How well 2 and 4 frontends decide compared with one, in virtual time, with all loads of bench/routing/loads.ts:
 * block reuse and TTFT as ratios to one frontend, over several seeds.
 *
 *   npx tsx bench/frontend-decisions.ts [--frontends 2,4] [--requests 1000] [--seeds 3] [--cost time] [--events on,off]
 *     [--loads chat,tools] [--workers 8] [--peer-ms 2]
 */
import { runFleet } from '../src/sim/index.ts'
import type { FleetReport } from '../src/sim/index.ts'
import { readOptions } from './load/options.ts'
import { qualityLoads } from './routing/loads.ts'

const { values } = readOptions({
  options: {
    frontends: { type: 'string', default: '2,4' },
    requests: { type: 'string', default: '1000' },
    seeds: { type: 'string', default: '3' },
    cost: { type: 'string', default: 'time' },
    events: { type: 'string', default: 'on,off' },
    loads: { type: 'string', default: '' },
    workers: { type: 'string', default: '8' },
    'peer-ms': { type: 'string', default: '2' },
  },
})

const cost = values.cost === 'blocks' ? 'blocks' : 'time'
const counts = values.frontends.split(',').map(Number)
const seeds = Array.from({ length: Number(values.seeds) }, (_, index) => index)
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const wanted = values.loads === '' ? null : values.loads.split(',')

interface Sums {
  reuse: number
  mean: number
  p90: number
}

for (const load of qualityLoads()) {
  if (load.workers !== Number(values.workers)) continue
  if (wanted !== null && !wanted.includes(load.name)) continue
  for (const events of values.events.split(',')) {
    const run = async (frontends: number, shift = 0): Promise<Sums> => {
      const reports: FleetReport[] = []
      for (const seed of seeds) {
        const { workers, trace, router, goal } = load.make(seed, Number(values.requests))
        const config = {
          workers,
          trace,
          goal,
          frontends,
          seed: seed + shift,
          settle,
          peerDelayMs: Number(values['peer-ms']),
        }
        const eventDelayMs = events === 'off' ? { eventDelayMs: null } : {}
        reports.push(await runFleet({ ...config, ...eventDelayMs, router: { ...router, cost } }))
      }
      const mean = (of: (report: FleetReport) => number): number =>
        reports.reduce((sum, report) => sum + of(report), 0) / reports.length
      return {
        reuse: mean(({ blockReuse }) => blockReuse),
        mean: mean(({ ttftMs }) => ttftMs.mean),
        p90: mean(({ ttftMs }) => ttftMs.p90),
      }
    }
    const one = await run(1)
    let line = `${load.name}, events ${events}: reuse ${(100 * one.reuse).toFixed(1)} %, TTFT mean ${one.mean.toFixed(1)}, p90 ${one.p90.toFixed(1)} ms`
    for (const count of counts) {
      // One frontend with other random choices shows what is chance.
      const now = await run(count, count === 1 ? 1000 : 0)
      const ratio = (of: keyof Sums): string =>
        one[of] === 0 ? '-' : (now[of] / one[of]).toFixed(3)
      line += ` | ${count}: ${ratio('reuse')} ${ratio('mean')} ${ratio('p90')}`
    }
    console.log(line)
  }
}
