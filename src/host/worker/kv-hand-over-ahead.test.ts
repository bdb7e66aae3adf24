import { describe, expect, it } from 'vitest'
import { RecordedReply } from '../../../test/worker/recorded-reply.ts'
import { until } from '../../../test/until.ts'
import {
  AheadEngine,
  BLOCK_TOKENS,
  BYTES_PER_TOKEN,
  BlockEngine,
  decodeOf,
  only,
  requestOf,
  serve,
  startWorker,
} from '../../../test/worker/kv-workers.ts'

describe('KV transfer - before the prefill has ended', () => {
  const request = requestOf('a', 18)

  async function halfWay() {
    let goOn = (): void => undefined
    let fail: (error: Error) => void = () => undefined
    const decided = new Promise<void>((resolve, reject) => {
      goOn = resolve
      fail = reject
    })
    const from = await startWorker(new AheadEngine(decided), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const first = new RecordedReply()
    const handle = from.hosted.worker.serve({ ...request, stop: { maxTokens: 1 } }, first)
    await until('the offer has arrived', () => first.chunks.length === 1)
    const told = first.chunks[0]?.prefillResult
    if (told?.kvOffer === undefined) throw new Error('no offer')
    const second = new RecordedReply()
    to.hosted.worker.serve(decodeOf(request, told.kvOffer), second)
    await until('half of the blocks have arrived', () => to.engine.kvBlocks.blockCount === 2)
    return { from, to, first, second, told, handle, goOn, fail }
  }

  it('the offer names all blocks - available ones are pulled, the rest when they arrive', async () => {
    const { from, to, first, second, told, goOn } = await halfWay()
    expect(told).toMatchObject({ cachedTokens: 3, meetsDecode: true })
    expect(told.kvOffer).toMatchObject({ tokenCount: 17, kvBytes: 17 * BYTES_PER_TOKEN })
    expect(to.engine.computed).toEqual([])
    goOn()
    await Promise.all([first.ended, second.ended])
    expect(first.terminal?.prefillResult).toMatchObject({ kvOffer: told.kvOffer })
    expect(second.terminal?.finish).toBe('length')
    expect(to.engine.computed).toEqual([0])
    expect(only(to.events, 'kv-taken')[0]).toMatchObject({ blocksPulled: 5 })
    await until('released', () => from.engine.kvBlocks.pinnedBytes === 0)
    expect(only(from.events, 'kv-offered')).toHaveLength(1)
    expect(only(from.events, 'kv-released').map(({ reason }) => reason)).toEqual(['acknowledged'])
  })

  it('a decode worker that has all blocks already - continues at once, and the offer is released', async () => {
    let goOn = (): void => undefined
    const decided = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const from = await startWorker(new AheadEngine(decided), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    await serve(to, request)
    const first = new RecordedReply()
    from.hosted.worker.serve({ ...request, stop: { maxTokens: 1 } }, first)
    await until('the offer has arrived', () => first.chunks.length === 1)
    const kvOffer = first.chunks[0]?.prefillResult?.kvOffer
    if (kvOffer === undefined) throw new Error('no offer')
    const second = await serve(to, decodeOf(request, kvOffer))
    expect(second.terminal?.finish).toBe('length')
    await until('acknowledged', () => only(from.events, 'kv-released').length === 1)
    goOn()
    await first.ended
    expect(first.terminal?.prefillResult?.kvOffer).toEqual(kvOffer)
    expect(from.engine.kvBlocks.pinnedBytes).toBe(0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('acknowledged')
  })

  it('the engine fails - the decode worker is told at once, and nothing stays pinned', async () => {
    const { from, to, first, second, fail } = await halfWay()
    fail(new Error('out of memory'))
    await Promise.all([first.ended, second.ended])
    expect(first.failure?.code).toBe('backend.unknown')
    expect(second.failure?.code).toBe('kv.offer_gone')
    await until('released', () => from.hosted.worker.health().openOffers === 0)
    expect([from.engine.kvBlocks.pinnedBytes, to.engine.kvBlocks.pinnedBytes]).toEqual([0, 0])
  })

  it('a prompt that was evicted from the store - no KV transfer instead of an incomplete one', async () => {
    const { from, first, second, goOn } = await halfWay()
    const put = from.engine.kvBlocks.put.bind(from.engine.kvBlocks)
    // The last block does not fit any more.
    from.engine.kvBlocks.put = (low, high, tokens, bytes) =>
      tokens === BLOCK_TOKENS && put(low, high, tokens, bytes)
    goOn()
    await Promise.all([first.ended, second.ended])
    expect(first.terminal?.prefillResult?.kvOffer).toBeUndefined()
    expect(second.failure?.code).toBe('kv.offer_gone')
    expect(from.engine.kvBlocks.pinnedBytes).toBe(0)
  })

  it.each(['stop', 'kill'] as const)('a %s of the prefill - ends the offer', async (kind) => {
    const { from, second, handle, goOn } = await halfWay()
    handle.cancel(kind)
    await second.ended
    expect(second.failure?.code).toBe('kv.offer_gone')
    goOn()
    await until('no request is in flight', () => from.hosted.worker.health().inFlight === 0)
    expect(from.engine.kvBlocks.pinnedBytes).toBe(0)
    expect(only(from.events, 'kv-released').map(({ reason }) => reason)).toEqual(['withdrawn'])
  })
})
