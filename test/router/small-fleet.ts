/** Workers that run few requests at once, behind a router that lets one wait in each of them. */
import type { RouterOptions } from '../../src/router/index.ts'
import { buildModel } from './model-fixture.ts'
import { card } from './scripted-plane.ts'

const small = (id: number, maxNumSeqs = 2) => card(id, 'agg', { engine: { maxNumSeqs } })

export function fleet(workers: number, config: RouterOptions = {}, maxNumSeqs = 2) {
  const cards = Array.from({ length: workers }, (_, i) => small(i + 1, maxNumSeqs))
  const model = buildModel(cards, { engineQueue: 1, ...config })
  return { ...model, pool: () => model.router.status().decode }
}
