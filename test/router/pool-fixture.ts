/** The router of one pool with its own clock, for tests of single decisions. */
import { seededRandom, workerIdOf } from '../../src/base/index.ts'
import type { RoutingHints } from '../../src/request/index.ts'
import { completeRouterConfig, KvRouter } from '../../src/router/index.ts'
import type { RouterOptions, Selection } from '../../src/router/index.ts'
import { ManualClock } from './manual-clock.ts'
import { storedTokens } from './model-fixture.ts'
import { request } from './scripted-plane.ts'

/**
 * The defaults of the reference implementation, with which the expected costs were recorded; Baton's defaults
 * differ.
 */
const RECORDED_WEIGHTS = {
  cost: 'blocks',
  prefillLoadScale: 1,
  decodeActiveRequestWeight: 0,
} as const

export function buildPool(config: RouterOptions = {}) {
  const clock = new ManualClock()
  const router = new KvRouter({
    config: completeRouterConfig({ ...RECORDED_WEIGHTS, ...config }),
    clock,
    random: seededRandom(7),
  })
  return { clock, router }
}

export function stored(
  router: KvRouter,
  worker: number,
  tokens: readonly number[],
  dpRank = 0,
): void {
  router.kvEvents(workerIdOf(worker), storedTokens(tokens, dpRank))
}

export function select(
  router: KvRouter,
  tokens: readonly number[] | number,
  routing: RoutingHints = {},
) {
  return router.select({ request: request(tokens, routing), phase: 'aggregated', queuedMs: 0 })
}

export function selected(...args: Parameters<typeof select>): Selection {
  const answer = select(...args)
  if (answer.kind === 'refused') throw answer.error
  return answer
}
