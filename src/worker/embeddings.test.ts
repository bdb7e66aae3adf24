import { describe, expect, it } from 'vitest'
import { requestOf, Scene } from '../../test/worker/worker-scene.ts'

describe('Worker - embeddings', () => {
  const embedding = requestOf('e', { kind: 'embed', stop: {} })

  it.each(['agg', 'prefill', 'decode'] as const)(
    '%s - one vector, no token, nothing offered',
    async (mode) => {
      const scene = new Scene({}, { mode })
      await scene.start()
      const { reply } = scene.serve(embedding)
      await scene.clock.runUntil(reply.ended)
      expect(reply.tokens).toEqual([])
      expect(reply.terminal).toMatchObject({
        finish: 'stop',
        usage: { promptTokens: 40, completionTokens: 0 },
      })
      expect(reply.terminal?.embedding).toHaveLength(128)
      expect(reply.terminal?.prefillResult).toBeUndefined()
      await scene.clock.settle()
      expect(scene.worker.health()).toMatchObject({ inFlight: 0, openOffers: 0 })
    },
  )

  it('an engine without embeddings, or with an invalid result - a typed refusal', async () => {
    const codes = await Promise.all(
      [undefined, () => Promise.resolve(Float32Array.of(NaN))].map(async (embed) => {
        const scene = new Scene()
        Object.assign(scene.engine, { embed })
        await scene.start()
        const { reply } = scene.serve(embedding)
        await scene.clock.runUntil(reply.ended)
        return reply.failure?.code
      }),
    )
    expect(codes).toEqual(['request.unsupported_parameter', 'backend.contract_violation'])
  })

  it.each([
    [127, 'backend.contract_violation'],
    [128, undefined],
    [129, 'backend.contract_violation'],
  ])('%i numbers from an engine whose config says 128 - %s', async (length, code) => {
    const scene = new Scene({ embeddingLength: 128 })
    Object.assign(scene.engine, { embed: () => Promise.resolve(new Float32Array(length)) })
    await scene.start()
    const { reply } = scene.serve(embedding)
    await scene.clock.runUntil(reply.ended)
    expect(reply.failure?.code).toBe(code)
    if (code !== undefined) expect(reply.failure?.message).toContain(`${length} numbers`)
    expect(reply.terminal?.embedding?.length).toBe(code === undefined ? length : undefined)
  })

  it('stopped in progress - ends as cancelled and frees its place', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply, handle } = scene.serve(embedding)
    handle.cancel('stop')
    await scene.clock.runUntil(reply.ended)
    await scene.clock.settle()
    expect(reply.terminal).toMatchObject({ finish: 'cancelled' })
    expect(scene.worker.health().inFlight).toBe(0)
  })
})
