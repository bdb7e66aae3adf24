import { describe, expect, it } from 'vitest'
import { Scene, requestOf } from '../../test/worker/worker-scene.ts'
import type { LoadReport } from '../kv/index.ts'
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
  return { sent, load: new LoadPublisher((one) => sent.push(one)) }
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
    const loads: LoadReport[] = []
    const scene = new Scene({ blockTokens: 4, tokenBudget: 16, maxSequences: 1 })
    const { ports } = scene
    const uplink = {
      publishLoad: (load: LoadReport) => void loads.push(load),
      publishKvEvents: () => undefined,
      flush: () => undefined,
      drain: () => undefined,
    }
    const open = (): Promise<{ host: string; port: number; uplink: typeof uplink }> =>
      Promise.resolve({ host: '127.0.0.1', port: 4711, uplink })
    await scene.clock.runUntil(scene.worker.start({ ...ports, open }))
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
