/** Controls of an engine that suspend and resume it, and discovery meanwhile. */
import { describe, expect, it } from 'vitest'
import { Scene } from '../../test/worker/worker-scene.ts'
import { BatonError } from '../base/index.ts'

const FULL = new BatonError('host.disk_full', 'no space left')

/** A worker that runs, and whose engine has these controls. */
async function sceneWith(controls: Record<string, () => unknown>): Promise<Scene> {
  const scene = new Scene()
  const called = Object.entries(controls).map(([name, answer]) => [name, async () => answer()])
  Object.assign(scene.engine, { controls: Object.fromEntries(called) as object })
  await scene.start()
  return scene
}

const fails = (): never => {
  throw new BatonError('backend.unknown', 'it cannot')
}

function isRegistered({ worker }: Scene): boolean {
  return worker.status().isRegistered
}

describe('Worker - an engine that is put to sleep', () => {
  it('sleep and wake_up - the worker leaves discovery and rejoins', async () => {
    const scene = await sceneWith({ sleep: () => ({ status: 'ok' }), wake_up: () => null })
    await scene.worker.control('sleep', {})
    expect(isRegistered(scene)).toBe(false)
    await scene.worker.control('wake_up', {})
    expect(isRegistered(scene)).toBe(true)
  })

  it.each([
    ['throws', fails],
    ['answers with an error', () => ({ status: 'error' })],
    ['answers that it had no success', () => ({ success: false })],
  ])('a sleep that %s - the worker is registered as before', async (_name, sleep) => {
    const scene = await sceneWith({ sleep })
    await scene.worker.control('sleep', {}).catch(() => undefined)
    expect(isRegistered(scene)).toBe(true)
  })

  it('a second sleep that fails - the worker stays out', async () => {
    let isFirst = true
    const sleep = (): unknown => {
      if (!isFirst) return fails()
      isFirst = false
      return null
    }
    const scene = await sceneWith({ sleep })
    await scene.worker.control('sleep', {})
    await expect(scene.worker.control('sleep', {})).rejects.toThrow('it cannot')
    expect(isRegistered(scene)).toBe(false)
  })

  it('a worker that cannot leave discovery - its engine is not called, and the worker stays in use', async () => {
    const calls: string[] = []
    const scene = await sceneWith({ sleep: () => calls.push('sleep') })
    scene.unregisterFails = FULL
    await expect(scene.worker.control('sleep', {})).rejects.toThrow('no space left')
    scene.unregisterFails = null
    await scene.clock.run(60_000)
    expect(calls).toEqual([])
    // The entry whose removal has begun is not renewed any more.
    expect(scene.calls.slice(-2)).toEqual(['unregister', 'register 7'])
  })

  it('an entry whose removal has failed - the worker is not ready until it has been replaced', async () => {
    const scene = await sceneWith({})
    scene.unregisterFails = FULL
    await expect(scene.worker.drain()).rejects.toThrow('no space left')
    await scene.clock.run(60_000)
    expect(scene.worker.health()).toMatchObject({ ready: false, live: true })
    expect(scene.worker.health().reason).toMatch(/cannot register in discovery: no space left/)
    scene.unregisterFails = null
    await scene.clock.run(120_000)
    expect(scene.worker.health().ready).toBe(true)
  })

  it('a wake_up while discovery fails - is answered, and the worker rejoins when discovery is back', async () => {
    const scene = await sceneWith({ sleep: () => null, wake_up: () => ({ status: 'ok' }) })
    await scene.worker.control('sleep', {})
    scene.registerFails = FULL
    expect(await scene.worker.control('wake_up', {})).toEqual({ status: 'ok' })
    expect(scene.worker.health()).toMatchObject({ ready: false, live: true })
    expect(scene.worker.status()).toMatchObject({ isRegistered: false, lastError: 'no space left' })
    scene.registerFails = null
    await scene.clock.run(60_000)
    expect(isRegistered(scene)).toBe(true)
    expect(scene.worker.health().ready).toBe(true)
  })
})
