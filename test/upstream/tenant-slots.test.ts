/** Tenants of one llama-server never reuse each other's KV, whatever becomes of the server and of requests. */
import { describe, expect, it } from 'vitest'
import { RequestContext } from '../../src/engine/index.ts'
import { until } from '../until.ts'
import { chunksOf, requestOf, startedEngine } from './engine-kit.ts'
import { closeAfterwards } from './recorded-llama-server.ts'
import { slotServer } from './slot-server.ts'
import type { SlotServer } from './slot-server.ts'

const TENANTS = ['a', 'b', 'c', 'd']
const SECRET = Array.from({ length: 40 }, (_, index) => 300 + index)

async function engineAt(server: SlotServer) {
  const engine = await startedEngine({ url: server.url })
  closeAfterwards({ close: () => engine.cleanup() }, server)
  /** The number of tokens that it reused. */
  const ask = async (cacheSalt: string | undefined, prompt: readonly number[]): Promise<number> => {
    const routing = cacheSalt === undefined ? {} : { cacheSalt }
    const chunks = await chunksOf(
      engine,
      requestOf({ tokenIds: Uint32Array.from(prompt), routing }),
    )
    return chunks.at(-1)?.usage?.cachedTokens ?? 0
  }
  return { engine, ask }
}

describe('tenants of a llama-server', () => {
  it.each([1, 2, 3])(
    'it is started again with %i slots instead of 4 - no tenant reuses what another one asked',
    async (slots) => {
      const server = await slotServer(4)
      const { ask } = await engineAt(server)
      for (const tenant of TENANTS) await ask(tenant, SECRET.toReversed())
      for (const tenant of TENANTS) expect(await ask(tenant, SECRET.toReversed())).toBe(40)
      await server.restart(slots)
      server.asked.length = 0
      for (const tenant of TENANTS) expect(await ask(tenant, SECRET)).toBe(0)
      expect(Math.max(...server.asked)).toBeLessThan(slots)
      // The last one can reuse its own prompt.
      expect(await ask('d', SECRET)).toBe(40)
    },
  )

  it('it is started again with more slots - these are used', async () => {
    const server = await slotServer(1)
    const { ask } = await engineAt(server)
    for (const tenant of TENANTS) expect(await ask(tenant, SECRET)).toBe(0)
    await server.restart(4)
    for (const tenant of TENANTS) expect(await ask(tenant, SECRET)).toBe(0)
    for (const tenant of TENANTS) expect(await ask(tenant, SECRET)).toBe(40)
  })

  it('a request that was never computed - leaves the slot as it was', async () => {
    const server = await slotServer(1)
    const { ask, engine } = await engineAt(server)
    await ask('a', SECRET)
    const routing = { cacheSalt: 'b' }
    const request = requestOf({ tokenIds: Uint32Array.from(SECRET), routing })

    server.holdsNext = true
    const leaving = new RequestContext(request.requestId)
    const left = chunksOf(engine, request, leaving)
    await until('the request is there', () => server.asked.length === 2)
    leaving.stop()
    await left
    expect(await ask('b', SECRET)).toBe(0)

    await ask('a', SECRET)
    server.refusesNext = 400
    await expect(ask('b', SECRET)).rejects.toThrow(/refused/)
    expect(await ask('b', SECRET)).toBe(0)
  })

  it('an adapter that is started again - without a salt nothing is reused of what tenants left', async () => {
    const server = await slotServer(1)
    const first = await engineAt(server)
    await first.ask('a', SECRET)
    const second = await engineAt(server)
    expect(await second.ask(undefined, SECRET)).toBe(0)
  })
})
