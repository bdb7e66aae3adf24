import { describe, expect, it } from 'vitest'
import { Scene, requestOf } from '../../test/worker/worker-scene.ts'
import type { LoadReport } from '../kv/index.ts'
import { VirtualClock } from '../sim/index.ts'
import type { WorkerUplink } from '../wire/index.ts'
import { LoadPublisher } from './load-publisher.ts'

const report = (runningRequests: number, dpRank = 0): LoadReport => ({
  dpRank,
  activeBlocks: 0,
  totalBlocks: 10,
  runningRequests,
  queuedRequests: 0,
  prefillTokensInFlight: 0,
})

function publisher(): { sent: LoadReport[]; load: LoadPublisher } {
  const sent: LoadReport[] = []
  const emit = (one: LoadReport): void => void sent.push(one)
  return { sent, load: new LoadPublisher({ clock: new VirtualClock(), emit, mostOn: () => 2 }) }
}

/** A worker that has started, and what it tells the routers. */
async function startedScene(...options: ConstructorParameters<typeof Scene>) {
  const told: LoadReport[] = []
  const uplink: WorkerUplink = {
    publishLoad: (load) => void told.push(load),
    publishKvEvents: () => undefined,
    flush: () => undefined,
    drain: () => undefined,
  }
  const scene = new Scene(...options)
  const open = () => Promise.resolve({ host: '127.0.0.1', port: 4711, uplink })
  await scene.clock.runUntil(scene.worker.start({ ...scene.ports, open }))
  return { scene, told }
}

describe('LoadPublisher - a report per step that changed the load', () => {
  it('each change of each rank - is reported, in order and at once', () => {
    const { sent, load } = publisher()
    const steps = [report(1), report(1, 1), report(2), report(1), report(2, 1)]
    for (const step of steps) load.publish(step)
    expect(sent).toEqual(steps)
    expect(load.current()).toEqual([report(1), report(2, 1)])
  })

  it.each([
    'activeBlocks',
    'totalBlocks',
    'runningRequests',
    'queuedRequests',
    'prefillTokensInFlight',
  ])('a step that changes %s - is reported, the same step again is not', (name) => {
    const { sent, load } = publisher()
    const changed = { ...report(1), [name]: 7 }
    for (const step of [report(1), report(1), changed, { ...changed }]) load.publish(step)
    expect(sent).toEqual([report(1), changed])
  })
})

describe('Worker - load', () => {
  it('the simulated engine - reports the true load of each step, idle at the end', async () => {
    const sizes = { blockTokens: 4, tokenBudget: 16, maxSequences: 1 }
    const { scene, told: loads } = await startedScene(sizes)
    const served = ['a', 'b'].map((id) => scene.serve(requestOf(id)).reply.ended)
    await scene.clock.runUntil(Promise.all(served))
    await scene.clock.settle()
    // 40 prompt tokens in chunks of 16: the tokens left to compute fall with each step, and the second request waits.
    const ofFirst = loads.filter(({ queuedRequests }) => queuedRequests === 1)
    expect(ofFirst.map((load) => load.prefillTokensInFlight - 40).slice(0, 3)).toEqual([24, 8, 0])
    expect(ofFirst.slice(0, 3).map((load) => load.activeBlocks)).toEqual([4, 8, 10])
    expect(loads.at(-1)).toMatchObject({
      activeBlocks: 0,
      runningRequests: 0,
      queuedRequests: 0,
      prefillTokensInFlight: 0,
    })
    expect(scene.worker.loadSnapshot()).toEqual([loads.at(-1)])
  })
})

describe('an engine that takes no more steps - routers would believe its last report for ever', () => {
  const last = (change: Partial<LoadReport> = {}): LoadReport => ({
    dpRank: 0,
    activeBlocks: 7,
    totalBlocks: 10,
    runningRequests: 2,
    queuedRequests: 10,
    prefillTokensInFlight: 400,
    ...change,
  })
  const none = { runningRequests: 0, queuedRequests: 0, prefillTokensInFlight: 0 }

  /** By rank: the requests of the worker. */
  function silent(inside: number[]) {
    const clock = new VirtualClock()
    const told: LoadReport[] = []
    const emit = (report: LoadReport): void => void told.push(report)
    const load = new LoadPublisher({ clock, emit, mostOn: (dpRank) => inside[dpRank] ?? 0 })
    return { clock, told, load }
  }

  it('its requests have left - after 2 s it names no more requests, KV blocks stay as reported', async () => {
    const inside = [12]
    const { clock, told, load } = silent(inside)
    load.publish(last())
    await clock.run(60_000)
    inside[0] = 0
    load.requestLeft()
    await clock.run(61_900)
    expect(told).toEqual([last()])
    await clock.run(62_000)
    expect(told).toEqual([last(), last(none)])
    expect(load.current()).toEqual([last(none)])
  })

  it('some of its requests have left - it names those that can be there, of each rank', async () => {
    const inside = [12, 12, 12]
    const { clock, told, load } = silent(inside)
    for (const dpRank of [0, 1, 2]) load.publish(last({ dpRank }))
    inside.splice(0, 3, 1, 5, 12)
    load.requestLeft()
    await clock.run(3000)
    expect(told.slice(3)).toEqual([
      last({ dpRank: 0, runningRequests: 1, queuedRequests: 0 }),
      last({ dpRank: 1, queuedRequests: 3 }),
    ])
  })

  it('an engine that goes on reporting, for example of a step that takes long - is believed', async () => {
    const { clock, told, load } = silent([0])
    for (let atMs = 0; atMs < 10_000; atMs += 1500) {
      await clock.run(atMs)
      expect(load.publish(last())).toBe(atMs === 0)
    }
    // Routers ignore a report that is not renewed.
    expect(told).toEqual([last(), last(), last(), last()])
    await clock.run(12_000)
    expect(told.at(-1)).toEqual(last(none))
    // It repeats what was corrected: that is news for the routers, but no sign of work.
    expect(load.publish(last())).toBe(false)
    expect(told.at(-1)).toEqual(last())
  })

  it('closed - corrects nothing more, and leaves no timer', async () => {
    const { clock, told, load } = silent([0])
    load.publish(last())
    load.close()
    load.requestLeft()
    expect(await clock.run()).toBe(0)
    expect(told).toEqual([last()])
  })

  it.each([[undefined], [true]])('a worker, other clients: %s', async (hasOtherClients) => {
    const { scene, told } = await startedScene()
    Object.assign(scene.engine, { hasOtherClients })
    await scene.clock.runUntil(scene.serve(requestOf('a')).reply.ended)
    await scene.clock.settle()
    scene.observer?.load(last())
    await scene.clock.run(scene.clock.nowMs() + 3000)
    const now = last(hasOtherClients === true ? {} : none)
    expect(told.at(-1)).toEqual(now)
    expect(scene.worker.loadSnapshot()).toEqual([now])
  })
})
