import { describe, expect, it } from 'vitest'
import { requestOf, Scene } from '../../test/worker/worker-scene.ts'
import { BatonError, sleep } from '../base/index.ts'
import type { SimEngine, SimFault } from '../engine/index.ts'

const slow: SimFault = { kind: 'slow', restMs: 1_000 }
const hangAt = (atToken: number): SimFault => ({ kind: 'hang', atToken })

describe('Worker - coming up', () => {
  it('order - engine, address, registration; then running', async () => {
    const scene = new Scene()
    const card = await scene.start()
    expect(scene.calls).toEqual(['start', 'observe', 'open', 'register 7'])
    expect(scene.kinds()).toEqual(['starting', 'running'])
    expect(card).toMatchObject({ workerId: '7', port: 4711, mode: 'agg', publishesKvEvents: true })
    expect(scene.worker.health()).toMatchObject({ live: true, ready: true, inFlight: 0 })
  })

  it('a decode worker - does not publish what it caches', async () => {
    const card = await new Scene({}, { mode: 'decode' }).start()
    expect(card.publishesKvEvents).toBe(false)
  })

  it('an engine that does not start - is cleaned up once, and the reason comes out', async () => {
    const scene = new Scene({ failStart: 'model.load_failed' })
    await expect(scene.start()).rejects.toMatchObject({ code: 'model.load_failed' })
    expect(scene.worker.state).toBe('start-failed')
    await scene.worker.stop()
    expect(scene.calls).toEqual(['start', 'cleanup'])
    expect(scene.worker.health()).toMatchObject({ live: false, ready: false })
  })

  it('a registration that fails - ends the start, the engine is cleaned up, nobody is admitted', async () => {
    const scene = new Scene()
    scene.registerFails = new BatonError('request.conflict', 'taken')
    await expect(scene.start()).rejects.toMatchObject({ code: 'request.conflict' })
    expect(scene.calls.at(-1)).toBe('cleanup')
    expect(scene.serve(requestOf('a')).reply.failure?.code).toBe('backend.worker_draining')
  })

  it('stop before start - cleans nothing up, because nothing was started', async () => {
    const scene = new Scene()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(report.exitCode).toBe(0)
    expect(scene.calls).toEqual([])
  })

  it('stop during start - lets the engine start, then ends it without an address', async () => {
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

  it('one too many - is refused as overload', async () => {
    const scene = new Scene({}, { limits: { requestsMax: 1 } })
    await scene.start()
    scene.serve(requestOf('a'))
    expect(scene.serve(requestOf('b')).reply.failure?.code).toBe('capacity.worker_overloaded')
  })

  it('a typed error of the engine - arrives unchanged, as the end', async () => {
    const scene = new Scene()
    await scene.start()
    const fault: SimFault = { kind: 'fail', atToken: 2, code: 'backend.engine_shutdown' }
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: fault } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.failure?.code).toBe('backend.engine_shutdown')
    expect(reply.tokens).toHaveLength(2)
  })

  it('stop - ends with cancelled, tells the engine once, leaves nothing inside', async () => {
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

  it('kill - ends the reply at once, even when the engine hangs', async () => {
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

  it('the first token - is the first chunk that has one; only then may a stopped decode request be aborted', async () => {
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

  it('a reader that is lost, of an engine that looks at nothing - its iterator is closed at the next item', async () => {
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

  it('a decode request stopped before its first token - never aborts an engine that ends without one', async () => {
    const scene = new Scene({}, { mode: 'decode' })
    await scene.start()
    const { reply, handle } = scene.serve(requestOf('a'))
    handle.cancel('stop')
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('cancelled')
    expect(scene.calls).not.toContain('abort a')
  })

  it('a decode request stopped before its first token - is aborted with that token, if it comes', async () => {
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

  it('a prefill worker without blocks - hands the parameters of its engine through untouched', async () => {
    const scene = new Scene({}, { mode: 'prefill' })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { stop: { maxTokens: 1 } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.prefillResult?.engineParams).toBeDefined()
    expect(reply.terminal?.prefillResult?.kvOffer).toBeUndefined()
  })
})

describe('Worker - a hung engine', () => {
  it('no sign of life - every request ends with a typed error, the worker is not live', async () => {
    const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: hangAt(1) } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.failure?.code).toBe('backend.response_timeout')
    expect(scene.worker.health()).toMatchObject({ live: false, ready: false })
    expect(scene.kinds()).toContain('engine-stalled')
  })

  it('a reader that does not read - is no fault of the engine', async () => {
    const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a'))
    reply.isWritable = false
    await scene.clock.run(60_000)
    expect(scene.worker.health().live).toBe(true)
    reply.drain()
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('length')
  })

  it('an engine that is only slow - is left alone', async () => {
    const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: slow } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('length')
    expect(scene.kinds()).not.toContain('engine-stalled')
  })
})

describe('Worker - going down', () => {
  it('idle - goes through every stage in order and ends with 0', async () => {
    const scene = new Scene()
    await scene.start()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toEqual([
      'unregister completed',
      'router_grace completed',
      'stop_admission completed',
      'inflight completed',
      'kv_transfer skipped',
      'cleanup completed',
    ])
    expect(report.exitCode).toBe(0)
    expect(scene.clock.nowMs()).toBe(5_000)
    expect(scene.calls.slice(4)).toEqual(['unregister', 'drain', 'cleanup'])
    expect(scene.worker.state).toBe('stopped')
  })

  it('during the grace time - serves; after it - refuses; what is in flight is finished', async () => {
    const scene = new Scene()
    await scene.start()
    const first = scene.serve(requestOf('a', { extra: { simFault: slow } }))
    const stopped = scene.worker.stop()
    await scene.clock.run(4_000)
    const second = scene.serve(requestOf('b', { extra: { simFault: slow } }))
    expect(second.reply.failure).toBeNull()
    await scene.clock.run(5_500)
    expect(scene.serve(requestOf('c')).reply.failure?.code).toBe('backend.worker_draining')
    const report = await scene.clock.runUntil(stopped)
    expect(first.reply.terminal?.finish).toBe('length')
    expect(second.reply.terminal?.finish).toBe('length')
    expect(report.exitCode).toBe(0)
  })

  it('a request that outlives the budget - ends with engine_shutdown, so that it can migrate', async () => {
    const scene = new Scene({}, { shutdown: { totalMs: 10_000, routerGraceMs: 1_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: hangAt(1) } }))
    await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toContain('inflight timed_out')
    expect(scene.stages()).toContain('cleanup completed')
    expect(reply.failure?.code).toBe('backend.engine_shutdown')
    expect(scene.clock.nowMs()).toBe(10_000)
  })

  it('a cleanup that never ends - is given up after its floor, exit code 1', async () => {
    const scene = new Scene({}, { shutdown: { totalMs: 1_000, routerGraceMs: 0 } })
    scene.engine.cleanup = () => new Promise<void>(() => undefined)
    await scene.start()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toContain('cleanup timed_out')
    expect(report.exitCode).toBe(1)
    expect(scene.clock.nowMs()).toBe(5_000)
  })

  it('a prefill engine that cannot tell - is waited for, and the report says so', async () => {
    const scene = new Scene(
      {},
      { mode: 'prefill', shutdown: { routerGraceMs: 0, kvTransferMs: 2_000 } },
    )
    scene.engine.isQuiescent = () => null as unknown as boolean
    await scene.start()
    await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toContain('kv_transfer unsupported')
    expect(scene.clock.nowMs()).toBe(2_000)
  })

  it('a prefill engine that fails to tell - is waited for like one that cannot, told of once', async () => {
    const scene = new Scene(
      {},
      { mode: 'prefill', shutdown: { routerGraceMs: 0, kvTransferMs: 2_000 } },
    )
    scene.engine.isQuiescent = () => {
      throw new Error('no idea')
    }
    await scene.start()
    await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toContain('kv_transfer unsupported')
    expect(scene.clock.nowMs()).toBe(2_000)
    expect(scene.kinds().filter((kind) => kind === 'engine-fault')).toHaveLength(1)
  })

  it('hurried - waits for nothing more, but cleans up', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: hangAt(1) } }))
    const stopped = scene.worker.stop()
    await scene.clock.run(1_000)
    scene.worker.hurry()
    const report = await scene.clock.runUntil(stopped)
    expect(reply.failure?.code).toBe('backend.engine_shutdown')
    expect(scene.stages()).toEqual([
      'unregister completed',
      'router_grace cancelled',
      'stop_admission cancelled',
      'inflight cancelled',
      'kv_transfer skipped',
      'cleanup completed',
    ])
    expect(report.exitCode).toBe(0)
    expect(scene.clock.nowMs()).toBe(1_000)
  })

  it('stop twice - is one way down', async () => {
    const scene = new Scene()
    await scene.start()
    expect(scene.worker.stop()).toBe(scene.worker.stop())
    await scene.clock.runUntil(scene.worker.stop())
    expect(scene.calls.filter((call) => call === 'cleanup')).toHaveLength(1)
  })
})

describe('Worker - administrator', () => {
  it('drain and resume - leaves discovery, empties, comes back', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: slow } }))
    expect(await scene.worker.drain()).toMatchObject({ state: 'draining', isRegistered: false })
    await scene.clock.run(6_000)
    expect(scene.serve(requestOf('b')).reply.failure?.code).toBe('backend.worker_draining')
    await scene.clock.runUntil(reply.ended)
    await scene.clock.settle()
    expect(scene.worker.status().state).toBe('drained')
    expect(scene.worker.health().ready).toBe(false)
    expect(await scene.worker.resume()).toMatchObject({ state: 'serving', isRegistered: true })
    expect(scene.serve(requestOf('c')).reply.failure).toBeNull()
  })

  it('resume while draining - overtakes the drain for good', async () => {
    const scene = new Scene()
    await scene.start()
    await scene.worker.drain()
    await scene.worker.resume()
    await scene.clock.run(20_000)
    expect(scene.worker.status().state).toBe('serving')
    expect(scene.serve(requestOf('a')).reply.failure).toBeNull()
  })

  it('stop while a resume is under way - leaves no entry behind, no timer either', async () => {
    const scene = new Scene()
    await scene.start()
    await scene.worker.drain()
    const resumed = scene.worker.resume()
    await scene.clock.runUntil(scene.worker.stop({ routerGraceMs: 0 }))
    await resumed
    expect(scene.calls.filter((call) => call.includes('register')).at(-1)).toBe('unregister')
    expect(scene.worker.status().isRegistered).toBe(false)
    expect(scene.clock.nextMs).toBeNull()
  })

  it('stopping - can be neither drained nor resumed', async () => {
    const scene = new Scene()
    await scene.start()
    const stopped = scene.worker.stop()
    await scene.clock.settle()
    await expect(scene.worker.resume()).rejects.toMatchObject({ code: 'request.conflict' })
    expect(scene.worker.status().state).toBe('stopping')
    await scene.clock.runUntil(stopped)
  })

  it('a control of the engine - is called by name; an unknown one is named in the error', async () => {
    const scene = new Scene()
    await scene.start()
    expect(await scene.worker.control('clear_kv_blocks', {})).toEqual({ status: 'ok' })
    await expect(scene.worker.control('dance', {})).rejects.toMatchObject({
      code: 'request.not_found',
    })
  })
})

describe('Worker - probe', () => {
  it('an idle worker whose engine stops answering - is not ready until it answers again', async () => {
    let isSick = true
    const scene = new Scene(
      { faultFor: (request) => (request.isProbe === true && isSick ? hangAt(0) : undefined) },
      { canary: requestOf('probe'), limits: { canaryIdleMs: 1_000, canaryTimeoutMs: 500 } },
    )
    await scene.start()
    await scene.clock.run(1_600)
    expect(scene.worker.health()).toMatchObject({ live: true, ready: false })
    isSick = false
    await scene.clock.run(3_500)
    expect(scene.worker.health().ready).toBe(true)
    await scene.clock.runUntil(scene.worker.stop({ routerGraceMs: 0 }))
  })

  it('an engine that never lets go of a probe - is not asked again', async () => {
    const scene = new Scene(
      {},
      { canary: requestOf('probe'), limits: { canaryIdleMs: 1_000, canaryTimeoutMs: 500 } },
    )
    let asked = 0
    scene.engine.generate = () => {
      asked++
      const never = new Promise<never>(() => undefined)
      return { [Symbol.asyncIterator]: () => ({ next: () => never }) }
    }
    await scene.start()
    await scene.clock.run(20_000)
    expect(asked).toBe(1)
    expect(scene.worker.health().ready).toBe(false)
    await scene.clock.runUntil(scene.worker.stop({ routerGraceMs: 0 }))
    expect(scene.clock.nextMs).toBeNull()
  })
})
