import { expect, it, onTestFinished } from 'vitest'
import { fakeServer, jsonResponse } from '../../../test/upstream/transcripts.ts'
import { osClock } from '../../os/index.ts'
import { UpstreamClient } from '../client/upstream-client.ts'
import { parseUpstreamUrl } from '../client/upstream-url.ts'
import { SlotPool } from './slot-pool.ts'
import type { SlotLease } from './slot-pool.ts'

async function poolOf(countAtFirst: number) {
  const says = { count: countAtFirst }
  const server = await fakeServer(() => jsonResponse(200, { total_slots: says.count }))
  const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
  onTestFinished(async () => {
    client.close()
    await server.close()
  })
  const pool = new SlotPool(countAtFirst)
  const lease = (salt: string): Promise<SlotLease> =>
    pool.lease(client, { tokens: Uint32Array.of(1), salt }, new AbortController().signal)
  /** One request; whether it may reuse what is in its slot. */
  const use = async (salt: string, answeredFrom?: number): Promise<boolean> => {
    const lent = await lease(salt)
    lent.computed()
    lent.answeredFrom(answeredFrom)
    lent.release()
    return lent.holdsOwn
  }
  return { says, lease, use }
}

it('another number of slots - nothing is reused until the requests from before have ended', async () => {
  const { says, lease, use } = await poolOf(2)
  const before = await lease('a')
  says.count = 1
  expect([await use('b'), await use('b')]).toEqual([false, false])
  before.release()
  expect([await use('b'), await use('b')]).toEqual([false, true])
})

it('an answer from another slot than asked - nothing known before is reused', async () => {
  const { use } = await poolOf(1)
  expect([await use('a'), await use('a', -1), await use('a', 0)]).toEqual([false, true, true])
  expect([await use('a', 3), await use('a'), await use('a')]).toEqual([true, false, true])
})

it('another number every time - is refused', async () => {
  const { says, use } = await poolOf(1)
  Object.defineProperty(says, 'count', { get: () => (counts += 1) })
  let counts = 1
  await expect(use('a')).rejects.toThrow(/another number of slots every time/)
})
