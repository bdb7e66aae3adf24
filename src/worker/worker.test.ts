import { describe, expect, it } from 'vitest'
import { requestOf, Scene } from '../../test/worker/worker-scene.ts'
import { BatonError, sleep } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import type { SimEngine, SimFault } from '../simengine/index.ts'

const hangAt = (atToken: number): SimFault => ({ kind: 'hang', atToken })

describe('Worker - startup', () => {
  it('order - engine, address, registration; then running', async () => {
    const scene = new Scene()
    const card = await scene.start()
    expect(scene.calls).toEqual(['start', 'observe', 'open', 'register 7'])
    expect(scene.kinds()).toEqual(['starting', 'running'])
    expect(card).toMatchObject({ workerId: '7', port: 4711, mode: 'agg', publishesKvEvents: true })
    expect(scene.worker.health()).toMatchObject({ live: true, ready: true, inFlight: 0 })
  })

  it('an engine that names no features - its card says that it has none', async () => {
    const scene = new Scene()
    const start = scene.engine.start.bind(scene.engine)
    scene.engine.start = async (workerId) => {
      const { features: _, ...config } = await start(workerId)
      return config
    }
    expect((await scene.start()).engine.features).toEqual([])
    // A frontend may have sent it before it knew that, or continues a request of another worker here.
    const { reply } = scene.serve(requestOf('a', { sampling: { seed: 1 } }))
    await scene.clock.settle()
    expect(reply.failure).toMatchObject({
      code: 'request.unsupported_parameter',
      data: { param: 'seed' },
    })
    const plain = scene.serve(requestOf('b')).reply
    await scene.clock.runUntil(plain.ended)
    expect(plain.failure).toBeNull()
  })

  it('a decode worker - does not publish its cached blocks', async () => {
    const card = await new Scene({}, { mode: 'decode' }).start()
    expect(card.publishesKvEvents).toBe(false)
  })

  it('an engine that does not start - is cleaned up once, and the reason is reported', async () => {
    const scene = new Scene({ failStart: 'model.load_failed' })
    await expect(scene.start()).rejects.toMatchObject({ code: 'model.load_failed' })
    expect(scene.worker.state).toBe('start-failed')
    await scene.worker.stop()
    expect(scene.calls).toEqual(['start', 'cleanup'])
    expect(scene.worker.health()).toMatchObject({ live: false, ready: false })
  })

  it('a registration that fails - ends the start, the engine is cleaned up, no request is admitted', async () => {
    const scene = new Scene()
    scene.registerFails = new BatonError('request.conflict', 'taken')
    await expect(scene.start()).rejects.toMatchObject({ code: 'request.conflict' })
    expect(scene.calls.at(-1)).toBe('cleanup')
    expect(scene.serve(requestOf('a')).reply.failure?.code).toBe('backend.worker_draining')
  })

  it.each<[keyof Engine, unknown, string]>([
    ['start', null, "the engine's start() threw: null"],
    ['observe', null, "the engine's observe() threw: null"],
    ['observe', new Error('no device 3'), "the engine's observe() threw: no device 3"],
    ['observe', new RangeError(''), "the engine's observe() threw: RangeError without a message"],
    ['healthCheckPayload', undefined, "the engine's healthCheckPayload() threw: undefined"],
  ])('%s throws (%#) - the error names the call', async (call, thrown, message) => {
    const scene = new Scene({}, { canary: undefined })
    const fails = (): never => {
      throw thrown
    }
    Object.assign(scene.engine, { [call]: fails })
    await expect(scene.start()).rejects.toMatchObject({ code: 'backend.unknown', message })
    expect(scene.worker.state).toBe('start-failed')
    expect(scene.calls.at(-1)).toBe('cleanup')
  })

  it('a typed error of observe - is passed on unchanged', async () => {
    const scene = new Scene()
    const error = new BatonError('config.invalid', 'no such device')
    Object.assign(scene.engine, {
      observe: () => {
        throw error
      },
    })
    await expect(scene.start()).rejects.toBe(error)
  })

  it('stop before start - cleans up nothing, because nothing was started', async () => {
    const scene = new Scene()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(report.exitCode).toBe(0)
    expect(scene.calls).toEqual([])
  })

  it('stop during start - waits for the start, then ends without an address', async () => {
    const scene = new Scene({ startupMs: 5_000 })
    const started = scene.worker.start(scene.ports)
    const refused = expect(started).rejects.toMatchObject({ code: 'backend.worker_draining' })
    const report = await scene.clock.runUntil(scene.worker.stop())
    await refused
    expect(report.exitCode).toBe(0)
    expect(scene.calls).toEqual(['start', 'cleanup'])
    expect(scene.worker.state).toBe('stopped')
  })
})

describe('Worker - serving', () => {
  it('a request - streams tokens, ends once, frees its place', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply } = scene.serve(requestOf('a'))
    expect(scene.worker.health().inFlight).toBe(1)
    await scene.clock.runUntil(reply.ended)
    await scene.clock.settle()
    expect(reply.tokens).toHaveLength(8)
    expect(reply.terminal?.finish).toBe('length')
    expect(reply.itemsAfterEnd).toBe(0)
    expect(scene.worker.health().inFlight).toBe(0)
    const ended = scene.events.find((event) => event.kind === 'request-ended')
    expect(ended).toMatchObject({ finish: 'length', promptTokens: 40, outputTokens: 8 })
  })

  it('one request too many - is refused as overload', async () => {
    const scene = new Scene({}, { limits: { requestsMax: 1 } })
    await scene.start()
    scene.serve(requestOf('a'))
    expect(scene.serve(requestOf('b')).reply.failure?.code).toBe('capacity.worker_overloaded')
  })

  it('a typed error of the engine - is passed on unchanged as the end', async () => {
    const scene = new Scene()
    await scene.start()
    const fault: SimFault = { kind: 'fail', atToken: 2, code: 'backend.engine_shutdown' }
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: fault } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.failure?.code).toBe('backend.engine_shutdown')
    expect(reply.tokens).toHaveLength(2)
  })

  it('stop - ends with cancelled, aborts the engine once, leaves nothing behind', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply, handle } = scene.serve(requestOf('a', { stop: { maxTokens: 1_000 } }))
    await scene.clock.run(100)
    handle.cancel('stop')
    handle.cancel('stop')
    await scene.clock.runUntil(reply.ended)
    await scene.clock.settle()
    expect(reply.terminal?.finish).toBe('cancelled')
    expect(scene.calls.filter((call) => call === 'abort a')).toHaveLength(1)
    expect(scene.worker.health().inFlight).toBe(0)
    expect(reply.itemsAfterEnd).toBe(0)
  })

  it('kill - ends the reply at once, even if the engine hangs', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply, handle } = scene.serve(requestOf('a', { extra: { simFault: hangAt(1) } }))
    await scene.clock.run(500)
    handle.cancel('kill')
    expect(reply.terminal?.finish).toBe('cancelled')
  })

  it.each(['agg', 'decode'] as const)(
    'a reader that is lost (%s) - what the request holds is given back, abort is never called',
    async (mode) => {
      const scene = new Scene({}, { mode })
      await scene.start()
      const { reply, handle } = scene.serve(requestOf('a', { stop: { maxTokens: 1_000 } }))
      await scene.clock.run(100)
      const held = (): number | undefined =>
        scene.engine.metrics().find(({ name }) => name === 'kv_blocks_active')?.value
      expect(held()).toBe(1)
      const tokensBefore = reply.tokens.length
      handle.drop?.()
      await scene.clock.settle()
      expect([held(), scene.worker.health().inFlight]).toEqual([0, 0])
      handle.drop?.()
      handle.cancel('kill')
      await scene.clock.run(10_000)
      expect(scene.calls).not.toContain('abort a')
      expect(reply.tokens).toHaveLength(tokensBefore)
    },
  )

  it('the first token - is in the first chunk with a token; only then may a stopped decode request be aborted', async () => {
    const scene = new Scene({}, { mode: 'decode' })
    const { clock } = scene
    scene.engine.generate = async function* () {
      for (const tokenIds of [[], [], [7]]) {
        await sleep(clock, 100)
        yield { tokenIds }
      }
      yield { tokenIds: [], finish: 'cancelled' }
    } as unknown as SimEngine['generate']
    await scene.start()
    const { handle } = scene.serve(requestOf('a'))
    await clock.run(250)
    // Two chunks without a token have come.
    handle.cancel('stop')
    expect(scene.calls).not.toContain('abort a')
    await clock.run(310)
    expect(scene.calls.filter((call) => call === 'abort a')).toHaveLength(1)
  })

  it('a lost reader with an engine that ignores stops - its iterator is closed at the next item', async () => {
    const scene = new Scene({}, { mode: 'decode' })
    const { clock } = scene
    let closed = 0
    scene.engine.generate = async function* () {
      try {
        for (;;) {
          await sleep(clock, 100)
          yield { tokenIds: [7] }
        }
      } finally {
        closed++
      }
    } as unknown as SimEngine['generate']
    await scene.start()
    const { handle } = scene.serve(requestOf('a'))
    await clock.run(50)
    handle.drop?.()
    expect(scene.worker.health().inFlight).toBe(1)
    await clock.run(110)
    expect([closed, scene.worker.health().inFlight]).toEqual([1, 0])
    expect(scene.calls).not.toContain('abort a')
  })

  it('a decode request stopped before its first token - does not abort an engine that ends without a token', async () => {
    const scene = new Scene({}, { mode: 'decode' })
    await scene.start()
    const { reply, handle } = scene.serve(requestOf('a'))
    handle.cancel('stop')
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('cancelled')
    expect(scene.calls).not.toContain('abort a')
  })

  it('a decode request stopped before its first token - is aborted with that token, if it arrives', async () => {
    const scene = new Scene({}, { mode: 'decode' })
    const { clock } = scene
    scene.engine.generate = async function* () {
      await sleep(clock, 100)
      yield { tokenIds: [7] }
      await sleep(clock, 100)
      yield { tokenIds: [], finish: 'cancelled' }
    } as unknown as SimEngine['generate']
    await scene.start()
    const { reply, handle } = scene.serve(requestOf('a'))
    await clock.run(50)
    handle.cancel('stop')
    await clock.run(90)
    expect(scene.calls).not.toContain('abort a')
    await clock.run(110)
    expect(scene.calls.filter((call) => call === 'abort a')).toHaveLength(1)
    await clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('cancelled')
  })

  it.each([
    ['ends without a terminal item', [{ tokenIds: [7] }], 'backend.stream_incomplete'],
    ['ends at once', [], 'backend.stream_incomplete'],
    ['breaks the contract', [{ tokenIds: [-1] }, { tokenIds: [7] }], 'backend.contract_violation'],
    ['throws what is not typed', [new TypeError('no')], 'backend.unknown'],
    [
      'throws a typed error',
      [{ tokenIds: [7] }, new BatonError('backend.invalid_argument', 'no')],
      'backend.invalid_argument',
    ],
  ])('an engine that %s - one typed error, iterator closed, no abort', async (_, items, code) => {
    const scene = new Scene()
    let closed = 0
    scene.engine.generate = async function* () {
      try {
        for (const item of items) {
          if (item instanceof Error) throw item
          yield item
        }
      } finally {
        closed++
      }
    } as unknown as SimEngine['generate']
    await scene.start()
    const { reply } = scene.serve(requestOf('a'))
    await scene.clock.runUntil(reply.ended)
    await scene.clock.settle()
    expect(reply.failure?.code).toBe(code)
    expect(reply.itemsAfterEnd).toBe(0)
    expect(closed).toBe(1)
    expect(scene.calls).not.toContain('abort a')
    expect(scene.worker.health().inFlight).toBe(0)
  })

  it('a slow reader - holds the engine back and loses nothing', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply } = scene.serve(requestOf('a'))
    reply.isWritable = false
    await scene.clock.run(10_000)
    expect(reply.tokens).toHaveLength(1)
    reply.drain()
    await scene.clock.runUntil(reply.ended)
    expect(reply.tokens).toHaveLength(8)
  })

  it("a prefill worker without blocks - passes on the engine's parameters unchanged", async () => {
    const scene = new Scene({}, { mode: 'prefill' })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { stop: { maxTokens: 1 } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.prefillResult?.engineParams).toBeDefined()
    expect(reply.terminal?.prefillResult?.kvOffer).toBeUndefined()
  })
})
