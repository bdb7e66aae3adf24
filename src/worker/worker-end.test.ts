import { describe, expect, it } from 'vitest'
import { requestOf, Scene } from '../../test/worker/worker-scene.ts'
import { sleep } from '../base/index.ts'
import type { SimFault } from '../simengine/index.ts'

const slow: SimFault = { kind: 'slow', restMs: 1_000 }
const hangAt = (atToken: number): SimFault => ({ kind: 'hang', atToken })

describe('Worker - shutdown', () => {
  it('idle - goes through every stage in order and ends with exit code 0', async () => {
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

  it('during the grace time it serves, afterwards it refuses; requests in flight are completed', async () => {
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

  it('a request that exceeds the budget - ends with engine_shutdown, so that it can migrate', async () => {
    const scene = new Scene({}, { shutdown: { totalMs: 10_000, routerGraceMs: 1_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: hangAt(1) } }))
    await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toContain('inflight timed_out')
    expect(scene.stages()).toContain('cleanup completed')
    expect(reply.failure?.code).toBe('backend.engine_shutdown')
    expect(scene.clock.nowMs()).toBe(10_000)
  })

  it('a cleanup that never ends - is abandoned after its minimum time, exit code 1', async () => {
    const scene = new Scene({}, { shutdown: { totalMs: 1_000, routerGraceMs: 0 } })
    scene.engine.cleanup = () => new Promise<void>(() => undefined)
    await scene.start()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(scene.stages()).toContain('cleanup timed_out')
    expect(report.exitCode).toBe(1)
    expect(scene.clock.nowMs()).toBe(5_000)
  })

  it('a prefill engine with unknown KV state - is waited for, and the report says so', async () => {
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

  it('a prefill engine whose isQuiescent throws - is treated as unknown, and the fault is reported once', async () => {
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

  it('hurried - stops waiting, but cleans up', async () => {
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

  it('stop twice - is one shutdown', async () => {
    const scene = new Scene()
    await scene.start()
    expect(scene.worker.stop()).toBe(scene.worker.stop())
    await scene.clock.runUntil(scene.worker.stop())
    expect(scene.calls.filter((call) => call === 'cleanup')).toHaveLength(1)
  })
})

describe('Worker - administrator', () => {
  it('drain and resume - leaves discovery, becomes empty, returns', async () => {
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

  it('resume while draining - cancels the drain for good', async () => {
    const scene = new Scene()
    await scene.start()
    await scene.worker.drain()
    await scene.worker.resume()
    await scene.clock.run(20_000)
    expect(scene.worker.status().state).toBe('serving')
    expect(scene.serve(requestOf('a')).reply.failure).toBeNull()
  })

  it('stop during a resume - leaves neither an entry nor a timer behind', async () => {
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

  it('while stopping - can be neither drained nor resumed', async () => {
    const scene = new Scene()
    await scene.start()
    const stopped = scene.worker.stop()
    await scene.clock.settle()
    await expect(scene.worker.resume()).rejects.toMatchObject({ code: 'request.conflict' })
    expect(scene.worker.status().state).toBe('stopping')
    await scene.clock.runUntil(stopped)
  })

  it('an operation of the engine - is called by name; an unknown one is named in the error', async () => {
    const scene = new Scene()
    await scene.start()
    expect(await scene.worker.control('clear_kv_blocks', {})).toEqual({ status: 'ok' })
    await expect(scene.worker.control('dance', {})).rejects.toMatchObject({
      code: 'request.not_found',
    })
  })
})

describe('Worker - probe', () => {
  it('an idle worker whose engine stops responding - is not ready until it responds again', async () => {
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

  it('an engine that never returns from a probe - is not probed again', async () => {
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

describe("Worker - the engine's own drain", () => {
  it('completes before cleanup begins', async () => {
    const scene = new Scene({}, { shutdown: { routerGraceMs: 0 } })
    const { clock } = scene
    let drainedMs = -1
    let cleanupMs = -1
    scene.engine.drain = async () => {
      await sleep(clock, 3_000)
      drainedMs = clock.nowMs()
    }
    scene.engine.cleanup = async () => void (cleanupMs = clock.nowMs())
    await scene.start()
    await clock.runUntil(scene.worker.stop())
    expect([drainedMs, cleanupMs]).toEqual([3_000, 3_000])
    expect(scene.stages()).toContain('inflight completed')
  })

  it('never completes - gets the rest of the budget, and the report says so', async () => {
    const scene = new Scene({}, { shutdown: { routerGraceMs: 0, totalMs: 8_000, inflightMs: 100 } })
    scene.engine.drain = () => new Promise(() => undefined)
    await scene.start()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(scene.clock.nowMs()).toBe(8_000)
    expect(scene.stages()).toContain('inflight timed_out')
    expect(scene.stages()).toContain('cleanup completed')
    expect(report.exitCode).toBe(0)
  })

  it.each([
    ['rejects', () => Promise.reject(new Error('no'))],
    ['throws', () => fail()],
    ['gives no promise', () => undefined as never],
  ])('%s - does not keep the worker from ending', async (_name, drain) => {
    const scene = new Scene({}, { shutdown: { routerGraceMs: 0 } })
    scene.engine.drain = drain
    await scene.start()
    const report = await scene.clock.runUntil(scene.worker.stop())
    expect(report.exitCode).toBe(0)
    expect(scene.stages()).toContain('cleanup completed')
  })
})

function fail(): never {
  throw new Error('no')
}
