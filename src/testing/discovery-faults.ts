/**
 * What every `Discovery` must do while the place where a fleet meets is away, slow or full: checks that a test runs for each
 * fault that the place can have. They throw when the promise is broken.
 */
import { DiscoveryRecord, sampleCard } from './discovery-kit.ts'
import type { DiscoveryPair } from './discovery-kit.ts'

export interface FaultScene extends DiscoveryPair {
  begin(): unknown
  /** The fault is over; nothing of what was asked meanwhile is asked again by hand. */
  end(): unknown
  /** Watchers are told that discovery is away, and that it is back. */
  readonly isTold: boolean
  /** Who registers meanwhile is refused with `discovery.unavailable`, not kept waiting. */
  readonly refuses?: boolean
  /** Entries that are not renewed are gone after this. */
  readonly ttlMs: number
}

export interface DiscoveryFaultCheck {
  readonly name: string
  readonly run: (scene: FaultScene) => Promise<void>
}

/** Within these nothing may happen: time has to pass. */
const TIMES_TO_LIVE = 2

async function outlast({ ttlMs }: FaultScene): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, TIMES_TO_LIVE * ttlMs))
}

function refuseLeft({ told }: DiscoveryRecord, allowed: readonly string[] = []): void {
  const left = told.filter((line) => line.startsWith('left') && !allowed.includes(line))
  if (left.length > 0) throw new Error(`workers were lost: ${told.join(', ')}`)
}

async function beginAndBeTold(scene: FaultScene, record: DiscoveryRecord): Promise<void> {
  await scene.begin()
  if (scene.isTold) await record.until('away')
}

async function endAndBeTold(scene: FaultScene, record: DiscoveryRecord): Promise<void> {
  await scene.end()
  if (scene.isTold) await record.until('back')
}

export const DISCOVERY_FAULT_CHECKS: readonly DiscoveryFaultCheck[] = [
  {
    name: 'who is known - stays in use for longer than a time to live, and is not told again; news come after it',
    run: async (scene) => {
      await scene.worker.register(sampleCard(1))
      await scene.worker.register(sampleCard(2))
      const record = new DiscoveryRecord()
      const watch = await scene.frontend.watch(record)
      await beginAndBeTold(scene, record)
      await outlast(scene)
      if (watch.cards.size !== 2) throw new Error(`${watch.cards.size} of 2 are known`)
      await endAndBeTold(scene, record)
      await scene.worker.register(sampleCard(3))
      await record.until('joined 3')
      await outlast(scene)
      refuseLeft(record)
      const joined = record.told.filter((line) => line.startsWith('joined'))
      if (joined.toSorted().join() !== 'joined 1,joined 2,joined 3') {
        throw new Error(`told ${record.told.join(', ')}`)
      }
    },
  },
  {
    name: 'who leaves meanwhile - is gone after it, and nobody else is',
    run: async (scene) => {
      const leaving = await scene.worker.register(sampleCard(1))
      await scene.worker.register(sampleCard(2))
      const record = new DiscoveryRecord()
      const watch = await scene.frontend.watch(record)
      await beginAndBeTold(scene, record)
      const closed = leaving.close()
      await scene.end()
      await closed
      await record.until('left 1')
      refuseLeft(record, ['left 1 closed', 'left 1 expired'])
      if (!watch.cards.has(sampleCard(2).workerId)) throw new Error('2 is gone')
    },
  },
  {
    name: 'who comes meanwhile - is there after it, or was refused by its name and may come then',
    run: async (scene) => {
      const record = new DiscoveryRecord()
      await scene.worker.register(sampleCard(1))
      await scene.frontend.watch(record)
      await beginAndBeTold(scene, record)
      const coming = scene.worker.register(sampleCard(2, { taints: ['x'.repeat(16_384)] })).then(
        () => 'accepted',
        (error: Error & { readonly code?: string }) => error.code ?? error.message,
      )
      const refused = scene.refuses === true ? await coming : null
      await scene.end()
      if (refused !== null && refused !== 'discovery.unavailable') {
        throw new Error(`not refused but ${JSON.stringify(refused)}`)
      }
      if (refused !== null) await scene.worker.register(sampleCard(2))
      else if ((await coming) !== 'accepted')
        throw new Error(`refused: ${JSON.stringify(await coming)}`)
      await record.until('joined 2')
      refuseLeft(record)
    },
  },
]
