/**
 * What every `Discovery` must do while its service is unavailable, slow or full: checks that a test runs for each
 * fault of the service. A check throws when the contract is violated.
 */
import { DiscoveryRecord, sampleCard } from './discovery-kit.ts'
import type { DiscoveryPair } from './discovery-kit.ts'

export interface FaultScene extends DiscoveryPair {
  begin(): unknown
  /** Ends the fault. Operations requested during the fault are not repeated by the caller. */
  end(): unknown
  /** True: watchers must be told that discovery is unavailable, and that it is back. */
  readonly isTold: boolean
  /** True: a registration during the fault is refused with `discovery.unavailable` instead of waiting. */
  readonly refuses?: boolean
  /** Time to live of entries that are not renewed. */
  readonly ttlMs: number
}

export interface DiscoveryFaultCheck {
  readonly name: string
  readonly run: (scene: FaultScene) => Promise<void>
}

/** How long nothing may happen; the check has to wait for this time. */
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
    name: 'known workers - stay in use for longer than a time to live and are not reported again; news arrive after the fault',
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
    name: 'a worker that leaves during the fault - has left after it, and no other',
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
    name: 'a worker that registers during the fault - is known after it, or was refused with the expected code and can register then',
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
