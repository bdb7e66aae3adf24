/** Engines that are unavailable for a while, hang, or cannot start. */
import { describe, expect, it } from 'vitest'
import { requestOf, Scene } from '../../test/worker/worker-scene.ts'
import { BatonError, sleep } from '../base/index.ts'
import type { LoadReport } from '../kv/index.ts'
import { finishChunk } from '../request/index.ts'
import type { SimFault } from '../simengine/index.ts'

const slow: SimFault = { kind: 'slow', restMs: 1_000 }
/** Its engine accepts requests and never answers, not even the stop. */
async function silentScene(): Promise<Scene> {
  const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
  // eslint-disable-next-line require-yield
  scene.engine.generate = async function* (_request, { signal }) {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    throw new BatonError('backend.cancelled', 'given up')
  }
  await scene.start()
  return scene
}

function passed({ clock }: Scene, ms: number): Promise<number> {
  return clock.run(clock.nowMs() + ms)
}

function loadOf({ active = 3, queued = 0, prefill = 0 }): LoadReport {
  return {
    dpRank: 0,
    activeBlocks: active,
    totalBlocks: 100,
    runningRequests: 1,
    queuedRequests: queued,
    prefillTokensInFlight: prefill,
  }
}

const hangAt: SimFault = { kind: 'hang', atToken: 1 }

describe('Worker - an engine that loads and unloads LoRA adapters', () => {
  it('its card has the newest list, and it stays registered; names that are none are reported', async () => {
    const scene = new Scene()
    await scene.start()
    const { observer, worker } = scene
    const calls = [...scene.calls]
    observer?.loraAdapters?.(['poet'])
    await scene.clock.settle()
    expect(worker.memberCard()?.engine.loraAdapters).toEqual(['poet'])
    for (const wrong of [[''], 'poet', null, [7]]) observer?.loraAdapters?.(wrong as never)
    await scene.clock.settle()
    expect(worker.memberCard()?.engine.loraAdapters).toEqual(['poet'])
    expect(scene.events.filter(({ kind }) => kind === 'engine-fault').length).toBeGreaterThan(0)
    observer?.loraAdapters?.([])
    await scene.clock.settle()
    expect(worker.memberCard()?.engine.loraAdapters).toEqual([])
    expect(scene.calls).toEqual(calls)
  })
})

describe('Worker - an engine that is temporarily unavailable', () => {
  it('running requests continue, the worker leaves discovery and rejoins with the engine', async () => {
    const scene = new Scene()
    await scene.start()
    const { observer } = scene
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: slow } }))
    observer?.unavailable?.(new BatonError('backend.response_timeout', 'no answer for 15 s'))
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('length')
    expect(scene.calls.at(-1)).toBe('unregister')
    expect(scene.worker.health()).toMatchObject({ ready: false, live: true })
    expect(scene.worker.health().reason).toContain('no answer for 15 s')
    observer?.unavailable?.(null)
    await scene.clock.settle()
    expect(scene.calls.at(-1)).toBe('register 7')
    expect(scene.worker.health().ready).toBe(true)
    const away = scene.events.filter(({ kind }) => kind === 'engine-away')
    expect(away).toMatchObject([{ away: true }, { away: false }])
  })

  it.each<[string, unknown, string]>([
    ['an Error', new Error('no answer'), 'no answer'],
    ['a text', 'no answer', 'no answer'],
    ['undefined', undefined, 'undefined'],
    ['an object without a text', Object.create(null), 'cannot be converted to text'],
  ])('a reason that is %s - the worker leaves discovery', async (_name, reason, text) => {
    const scene = new Scene()
    await scene.start()
    scene.observer?.unavailable?.(reason as never)
    await scene.clock.settle()
    expect(scene.calls.at(-1)).toBe('unregister')
    expect(scene.worker.health()).toMatchObject({ ready: false, live: true })
    expect(scene.worker.health().reason).toContain(text)
  })

  it('an engine that changes its mind again and again - discovery is told the newest state only', async () => {
    const scene = new Scene()
    await scene.start()
    const away = (isAway: boolean): void =>
      scene.observer?.unavailable?.(isAway ? new BatonError('backend.unknown', 'away') : null)
    // The last change is once the state in which the worker is, and once the other one.
    for (const changes of [1_000, 1_001, 1_000, 1_001]) {
      const before = scene.calls.length
      const wasAway = scene.worker.health().ready === false
      for (let n = 0; n < changes; n++) away(n % 2 === 0 ? !wasAway : wasAway)
      await scene.clock.settle()
      const isAway = changes % 2 === 0 ? wasAway : !wasAway
      expect(scene.worker.status().isRegistered).toBe(!isAway)
      expect(scene.worker.health().ready).toBe(!isAway)
      expect(scene.calls.slice(before).length).toBeLessThan(5)
    }
  })

  it('an engine that changes while discovery is being told - discovery is told the newest state', async () => {
    for (const turns of [1, 2, 3, 5, 8]) {
      const scene = new Scene()
      await scene.start()
      scene.observer?.unavailable?.(new BatonError('backend.unknown', 'away'))
      // The entry is being removed.
      for (let turn = 0; turn < turns; turn++) await Promise.resolve()
      scene.observer?.unavailable?.(null)
      await scene.clock.settle()
      expect(scene.worker.status().isRegistered).toBe(true)
      expect(scene.worker.health().ready).toBe(true)
    }
  })

  it('a discovery that fails when the engine returns - is told again until it succeeds, and reported once', async () => {
    const scene = new Scene()
    await scene.start()
    scene.observer?.unavailable?.(new BatonError('backend.response_timeout', 'no answer'))
    await scene.clock.settle()
    scene.registerFails = new BatonError('host.disk_full', 'no space left')
    scene.observer?.unavailable?.(null)
    await passed(scene, 60_000)
    expect(scene.worker.health()).toMatchObject({ ready: false, live: true })
    expect(scene.worker.health().reason).toContain('discovery: no space left')
    scene.registerFails = null
    await passed(scene, 60_000)
    expect(scene.worker.status().isRegistered).toBe(true)
    expect(scene.worker.health().ready).toBe(true)
    expect(scene.kinds().filter((kind) => /register|told|fault/.test(kind))).toEqual([
      'register-failed',
      'discovery-told',
    ])
  })

  it('a discovery that fails when the engine goes away - is told again until it succeeds', async () => {
    const scene = new Scene()
    await scene.start()
    scene.unregisterFails = new BatonError('host.disk_full', 'no space left')
    scene.observer?.unavailable?.(new BatonError('backend.response_timeout', 'no answer'))
    await passed(scene, 60_000)
    scene.unregisterFails = null
    await passed(scene, 60_000)
    expect(scene.worker.status().isRegistered).toBe(false)
    expect(scene.kinds().filter((kind) => kind === 'unregister-failed')).toHaveLength(1)
  })

  it('a stop while discovery is told again - leaves neither an entry nor a timer behind', async () => {
    const scene = new Scene()
    await scene.start()
    scene.observer?.unavailable?.(new BatonError('backend.response_timeout', 'no answer'))
    await scene.clock.settle()
    scene.registerFails = new BatonError('host.disk_full', 'no space left')
    scene.observer?.unavailable?.(null)
    await passed(scene, 1_000)
    await scene.clock.runUntil(scene.worker.stop())
    const { length } = scene.calls
    scene.registerFails = null
    await passed(scene, 60_000)
    expect(scene.calls.length).toBe(length)
    expect(scene.clock.nextMs).toBeNull()
  })

  it("a drain meanwhile - is not ended by the engine's return", async () => {
    const scene = new Scene()
    await scene.start()
    scene.observer?.unavailable?.(new BatonError('backend.response_timeout', 'no answer'))
    await scene.clock.runUntil(scene.worker.drain())
    scene.observer?.unavailable?.(null)
    await scene.clock.settle()
    expect(scene.worker.status().isRegistered).toBe(false)
    await scene.clock.runUntil(scene.worker.resume())
    expect(scene.worker.status().isRegistered).toBe(true)
  })

  it('a stop meanwhile - it does not rejoin', async () => {
    const scene = new Scene()
    await scene.start()
    scene.observer?.unavailable?.(new BatonError('backend.response_timeout', 'no answer'))
    await scene.clock.runUntil(scene.worker.stop())
    scene.observer?.unavailable?.(null)
    await scene.clock.settle()
    expect(scene.calls.filter((call) => call.startsWith('register'))).toHaveLength(1)
  })
})

describe('Worker - a hung engine', () => {
  it('no sign of life - every request ends with a typed error, the worker is not live', async () => {
    const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: hangAt } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.failure?.code).toBe('backend.response_timeout')
    expect(scene.worker.health()).toMatchObject({ live: false, ready: false })
    expect(scene.kinds()).toContain('engine-stalled')
  })

  it('no sign of life, with the default limit - the request ends after 120 s', async () => {
    const scene = new Scene()
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: hangAt } }))
    await passed(scene, 119_000)
    expect(reply.failure).toBeNull()
    // The token before is noticed up to 30 s later.
    await passed(scene, 32_000)
    expect(reply.failure?.code).toBe('backend.response_timeout')
  })

  it('clients that give up, one after the other - are no sign of life', async () => {
    const scene = await silentScene()
    for (let n = 0; n < 6; n++) {
      const { handle } = scene.serve(requestOf(`r${n}`))
      await passed(scene, 1_900)
      handle.cancel('stop')
      await passed(scene, 500)
    }
    expect(scene.worker.health()).toMatchObject({ live: false, ready: false })
    expect(scene.kinds()).toContain('engine-stalled')
  })

  it('clients that give up while others wait - are no sign of life', async () => {
    const scene = await silentScene()
    const waiting = scene.serve(requestOf('first'))
    for (let n = 0; n < 5; n++) {
      const { handle } = scene.serve(requestOf(`r${n}`))
      await passed(scene, 1_900)
      handle.cancel(n % 2 === 0 ? 'stop' : 'kill')
    }
    expect(waiting.reply.failure?.code).toBe('backend.response_timeout')
    const next = scene.serve(requestOf('next'))
    await scene.clock.runUntil(next.reply.ended)
    expect(next.reply.failure?.code).toBe('backend.response_timeout')
    expect(scene.worker.health().live).toBe(false)
  })

  it.each([
    ['repeat the last one', () => loadOf({})],
    ['follow the requests', (n: number) => loadOf({ queued: n % 3, prefill: 100 * (n % 3) })],
  ])('load reports that %s - are no sign of life', async (_name, report) => {
    const scene = await silentScene()
    const { reply } = scene.serve(requestOf('a'))
    for (let n = 0; n < 12; n++) {
      scene.observer?.load(report(n))
      await passed(scene, 1_000)
    }
    expect(reply.failure?.code).toBe('backend.response_timeout')
  })

  it.each([
    ['prompt tokens that were computed', (n: number) => loadOf({ prefill: 10_000 - n })],
    ['blocks that were filled', (n: number) => loadOf({ active: n })],
  ])('load reports with %s - are a sign of life', async (_name, report) => {
    const scene = await silentScene()
    scene.serve(requestOf('a'))
    for (let n = 0; n < 30; n++) {
      scene.observer?.load(report(n))
      await passed(scene, 1_000)
    }
    expect(scene.kinds()).not.toContain('engine-stalled')
  })

  it('tokens for clients that have given up - are a sign of life', async () => {
    const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
    scene.engine.generate = async function* () {
      await sleep(scene.clock, 2_500)
      yield { tokenIds: [5] }
    }
    await scene.start()
    for (let n = 0; n < 8; n++) {
      const { handle, reply } = scene.serve(requestOf(`r${n}`))
      await passed(scene, 2_000)
      handle.cancel('stop')
      await scene.clock.runUntil(reply.ended)
    }
    expect(scene.kinds()).not.toContain('engine-stalled')
  })

  it('an engine that answers again - is live', async () => {
    const scene = await silentScene()
    const hung = scene.serve(requestOf('a'))
    await scene.clock.runUntil(hung.reply.ended)
    expect(scene.worker.health().live).toBe(false)
    scene.engine.generate = async function* () {
      await sleep(scene.clock, 1)
      yield finishChunk('eos')
    }
    const { reply } = scene.serve(requestOf('b'))
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('eos')
    expect(scene.worker.health().live).toBe(true)
  })

  it('a reader that does not read - is not a fault of the engine', async () => {
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

  it('a slow engine - is not stopped', async () => {
    const scene = new Scene({}, { limits: { stallTimeoutMs: 8_000 } })
    await scene.start()
    const { reply } = scene.serve(requestOf('a', { extra: { simFault: slow } }))
    await scene.clock.runUntil(reply.ended)
    expect(reply.terminal?.finish).toBe('length')
    expect(scene.kinds()).not.toContain('engine-stalled')
  })
})

describe('Worker - an engine with an invalid configuration', () => {
  it.each([
    ['contextLength', -5],
    ['contextLength', 0],
    ['contextLength', 1.5],
    ['kvCacheBlockSize', NaN],
    ['maxNumSeqs', '8'],
    ['model', ''],
    ['features', 'logprobs'],
    ['modelAliases', ['']],
    ['bootstrapPort', 70_000],
    ['dataParallelStartRank', -1],
    ['fieldOfItsOwn', Symbol('x')],
  ])('%s %s - is never registered, the engine is cleaned up', async (field, value) => {
    const scene = new Scene()
    const start = scene.engine.start.bind(scene.engine)
    scene.engine.start = async (workerId) => ({ ...(await start(workerId)), [field]: value })
    await expect(scene.start()).rejects.toMatchObject({
      code: 'backend.contract_violation',
      data: { rule: 'config-invalid', field },
    })
    expect(scene.calls).toEqual(['start', 'cleanup'])
  })

  it('a start that hangs - is abandoned at its deadline and cleaned up', async () => {
    const scene = new Scene({}, { limits: { startTimeoutMs: 60_000 } })
    scene.engine.start = () => new Promise(() => undefined)
    await expect(scene.start()).rejects.toMatchObject({ code: 'backend.response_timeout' })
    expect(scene.clock.nowMs()).toBe(60_000)
    expect(scene.worker.state).toBe('start-failed')
    expect(scene.calls).toEqual(['start', 'cleanup'])
  })

  it('a start and a cleanup that hang - end nevertheless', async () => {
    const scene = new Scene({}, { limits: { startTimeoutMs: 1_000 }, shutdown: { cleanupMs: 500 } })
    scene.engine.start = () => new Promise(() => undefined)
    scene.engine.cleanup = () => new Promise(() => undefined)
    await expect(scene.start()).rejects.toMatchObject({ code: 'backend.response_timeout' })
    expect(scene.clock.nowMs()).toBe(1_500)
  })

  it('a stop while the start hangs - waits as long as a whole shutdown, then cleans up', async () => {
    const scene = new Scene({}, { shutdown: { totalMs: 10_000 } })
    scene.engine.start = () => new Promise(() => undefined)
    const started = scene.worker.start(scene.ports)
    const refused = expect(started).rejects.toMatchObject({ code: 'backend.worker_draining' })
    const report = await scene.clock.runUntil(scene.worker.stop())
    await refused
    expect(scene.clock.nowMs()).toBe(10_000)
    expect(scene.calls).toEqual(['start', 'cleanup'])
    expect(report.exitCode).toBe(0)
  })
})
