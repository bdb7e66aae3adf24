/** Workers whose state changes while the folder of the fleet cannot be written. */
import { describe, expect, it } from 'vitest'
import {
  atEnd,
  breakableFolder,
  discoveryOf,
  endDiscoveriesAfterEach,
} from '../../../test/fixtures/discovery-folder.ts'
import { until } from '../../../test/until.ts'
import { BatonError } from '../../base/index.ts'
import type { Engine, EngineObserver } from '../../engine/index.ts'
import { osClock } from '../../os/index.ts'
import { SimEngine } from '../../simengine/index.ts'
import { DiscoveryRecord } from '../../testing/discovery-kit.ts'
import type { WorkerEvent } from '../../worker/index.ts'
import { LocalRequestPlane } from '../../network/index.ts'
import { HostedWorker } from './hosted-worker.ts'

endDiscoveriesAfterEach()

const AWAY = new BatonError('backend.response_timeout', 'no answer')

/** A worker in a folder that can be replaced by a file, and a watcher of that folder. */
async function fleet() {
  const { folder, breakIt, mendIt } = await breakableFolder()
  const discovery = discoveryOf(folder, { ttlMs: 600_000 })
  const events: WorkerEvent[] = []
  const engine: Engine = new SimEngine({ clock: osClock, model: 'sim' })
  let told: EngineObserver | null = null
  const observe = engine.observe?.bind(engine)
  engine.observe = (observer, ...rest) => {
    told = observer
    observe?.(observer, ...rest)
  }
  const hosted = new HostedWorker({
    engine,
    engineName: 'sim',
    mode: 'agg',
    plane: { kind: 'local', plane: new LocalRequestPlane() },
    discovery,
    version: '0.0.0',
    shutdown: { routerGraceMs: 0 },
    observe: (event) => events.push(event),
  })
  atEnd(() => hosted.stop())
  await hosted.start()
  const record = new DiscoveryRecord()
  const watch = await discoveryOf(folder, { ttlMs: 600_000 }).watch(record)
  return {
    hosted,
    kinds: () => events.map(({ kind }) => kind),
    setAway: (reason: BatonError | null) => told?.unavailable?.(reason),
    isListed: () => watch.cards.size === 1,
    breakFolder: breakIt,
    mendFolder: mendIt,
  }
}

describe('HostedWorker - a folder that cannot be written while the state of the worker changes', () => {
  it('an engine that returns meanwhile - its worker registers when the folder is back', async () => {
    const { hosted, setAway, isListed, breakFolder, mendFolder, kinds } = await fleet()
    setAway(AWAY)
    await until('it has left', () => !isListed())
    await breakFolder()
    setAway(null)
    await until('the fault is reported', () => kinds().includes('register-failed'))
    expect(hosted.worker.health()).toMatchObject({ ready: false, live: true })
    expect(hosted.worker.health().reason).toMatch(/discovery.*it is a link to/)
    await mendFolder()
    await until('it has registered', () => isListed())
    expect(hosted.worker.health().ready).toBe(true)
    expect(kinds()).not.toContain('engine-fault')
  })

  it('an engine that goes away meanwhile - its entry is removed when the folder is back', async () => {
    const { setAway, isListed, breakFolder, mendFolder, kinds } = await fleet()
    await breakFolder()
    setAway(AWAY)
    await until('the fault is reported', () => kinds().includes('unregister-failed'))
    await mendFolder()
    await until('it has left', () => !isListed())
    expect(kinds().filter((kind) => kind === 'unregister-failed')).toHaveLength(1)
  })

  it('an engine that goes away and returns meanwhile - its entry is renewed when the folder is back', async () => {
    const { hosted, setAway, isListed, breakFolder, mendFolder, kinds } = await fleet()
    await breakFolder()
    setAway(AWAY)
    await until('the fault is reported', () => kinds().includes('unregister-failed'))
    setAway(null)
    await mendFolder()
    await until('discovery is told', () => kinds().includes('discovery-told'))
    expect(hosted.worker.status().isRegistered).toBe(true)
    await until('it is listed', () => isListed())
  })

  it('a drain - is refused with the reason, and the worker stays in the fleet', async () => {
    const { hosted, isListed, breakFolder, mendFolder, kinds } = await fleet()
    await breakFolder()
    await expect(hosted.worker.drain()).rejects.toThrow('ENOTDIR')
    await mendFolder()
    await until('discovery is told', () => kinds().includes('discovery-told'))
    await until('it is listed', () => isListed())
    expect(hosted.worker.status()).toMatchObject({ state: 'serving', isRegistered: true })
  })

  it('a resume - is refused with the reason, and the worker stays drained', async () => {
    const { hosted, isListed, breakFolder, mendFolder } = await fleet()
    await hosted.worker.drain()
    await breakFolder()
    await expect(hosted.worker.resume()).rejects.toThrow('it is a link to')
    expect(hosted.worker.status()).toMatchObject({ isRegistered: false })
    await mendFolder()
    await hosted.worker.resume()
    expect(hosted.worker.status()).toMatchObject({ state: 'serving', isRegistered: true })
    await until('it is listed', () => isListed())
  })

  it('an upstream that is listed again - its worker registers when the folder is back', async () => {
    const { hosted, isListed, breakFolder, mendFolder } = await fleet()
    await hosted.worker.setWanted(false)
    await until('it has left', () => !isListed())
    await breakFolder()
    await hosted.worker.setWanted(true)
    expect(hosted.worker.status()).toMatchObject({ isRegistered: false })
    await mendFolder()
    await until('it is listed', () => isListed())
  })
})
