import { describe, expect, it } from 'vitest'
import { AGREED, cardOf, RegistryFleet } from '../../../test/frontend/registry-fleet.ts'
import { BatonError, workerIdOf } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'

const FORGET_MS = 500
/** Two looks at what waits. */
const LOOKS_MS = 2_000
const REFUSED = 'refused 1 tokenizer'

const odd = (id: number): WorkerCard =>
  cardOf(id, { agreement: { ...AGREED, tokenizer: 't2', checksum: 'sum2' } })

/** Worker 1 serves and is connected; 2 and 3, which are more, are not connected when they replace it. */
async function changedFleet({ hasWaiting = false } = {}): Promise<RegistryFleet> {
  const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS, reportsLinks: true })
  fleet.registry.workerJoined(odd(1))
  fleet.registry.workerReachable(workerIdOf(1))
  for (const id of [2, 3]) {
    fleet.registry.workerJoined(cardOf(id))
    const told = new BatonError('backend.worker_differs', 'it differs')
    fleet.registry.workerUnreachable(workerIdOf(id), told)
  }
  fleet.scripted.hasWaiting = hasWaiting
  await fleet.pass(FORGET_MS)
  return fleet
}

function connect(fleet: RegistryFleet): void {
  for (const id of [2, 3]) fleet.registry.workerReachable(workerIdOf(id))
}

/** The workers of the model that a new request gets. */
function servedBy({ registry }: RegistryFleet): readonly string[] {
  return registry.ready('storyteller').cards.map(({ workerId }) => workerId)
}

describe('LeavingModels - other workers serve a name', () => {
  it('new requests - go to the former workers until all of the others are connected', async () => {
    const fleet = await changedFleet()
    expect(servedBy(fleet)).toEqual(['1'])
    fleet.registry.workerReachable(workerIdOf(2))
    expect(servedBy(fleet)).toEqual(['1'])
    fleet.registry.workerReachable(workerIdOf(3))
    expect(servedBy(fleet)).toEqual(['2', '3'])
  })

  it('one of the others cannot be reached - it is not waited for', async () => {
    const fleet = await changedFleet()
    fleet.registry.workerReachable(workerIdOf(2))
    const away = new BatonError('transport.cannot_connect', 'refused')
    fleet.registry.workerUnreachable(workerIdOf(3), away)
    expect(servedBy(fleet)).toEqual(['2', '3'])
  })

  it('none of the others is connected - the former workers stay', async () => {
    const fleet = await changedFleet()
    await fleet.pass(10 * LOOKS_MS)
    expect(fleet.news).not.toContain(REFUSED)
    connect(fleet)
    await fleet.pass(LOOKS_MS)
    expect(fleet.news.at(-1)).toBe(REFUSED)
  })

  it('requests wait - the former workers are refused when none has waited for two looks', async () => {
    const fleet = await changedFleet({ hasWaiting: true })
    connect(fleet)
    await fleet.pass(10 * LOOKS_MS)
    expect(fleet.news).not.toContain(REFUSED)
    fleet.scripted.hasWaiting = false
    await fleet.pass(LOOKS_MS / 2)
    expect(fleet.news).not.toContain(REFUSED)
    await fleet.pass(LOOKS_MS / 2)
    expect(fleet.news.at(-1)).toBe(REFUSED)
  })

  it('the former worker comes back with a card that agrees - it serves with the others', async () => {
    const fleet = await changedFleet({ hasWaiting: true })
    connect(fleet)
    fleet.registry.workerJoined(cardOf(1))
    expect(servedBy(fleet)).toEqual(['2', '3', '1'])
    fleet.scripted.hasWaiting = false
    await fleet.pass(LOOKS_MS)
    expect(fleet.news).not.toContain(REFUSED)
  })

  it('the card of the former worker changes - it gets no more requests and is refused at once', async () => {
    const fleet = await changedFleet({ hasWaiting: true })
    connect(fleet)
    fleet.registry.workerJoined(cardOf(1, { agreement: { ...AGREED, tokenizer: 't3' } }))
    expect(fleet.news.at(-1)).toBe(REFUSED)
  })

  it('the former workers are more again - they are not refused', async () => {
    const fleet = await changedFleet({ hasWaiting: true })
    connect(fleet)
    fleet.registry.workerJoined(odd(4))
    fleet.registry.workerJoined(odd(5))
    await fleet.pass(FORGET_MS)
    for (const id of [4, 5]) fleet.registry.workerReachable(workerIdOf(id))
    expect(servedBy(fleet)).toEqual(['1', '4', '5'])
    fleet.scripted.hasWaiting = false
    await fleet.pass(LOOKS_MS)
    expect(fleet.news.filter((news) => news.startsWith('refused')).slice(-2)).toEqual([
      'refused 2 tokenizer',
      'refused 3 tokenizer',
    ])
    expect(fleet.news).not.toContain(REFUSED)
  })
})
