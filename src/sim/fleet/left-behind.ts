/**
 * Leak checks for an idle fleet: no running request, nothing held, no booked load.
 */
import type { Fleet } from './fleet.ts'
import type { LabFrontend } from './lab-frontend.ts'
import type { LabWorker } from './lab-worker.ts'

/** Call it after `quiesce`. */
export function leftBehind(fleet: Fleet): string[] {
  const left: string[] = []
  const expectNone = (what: string, count: number): void => {
    if (count !== 0) left.push(`${what}: ${count} at the end, expected 0`)
  }
  for (const frontend of fleet.frontends) leftAtFrontend(frontend, expectNone)
  for (const worker of fleet.workers) if (worker.isAlive) leftAt(worker, expectNone)
  return left
}

function leftAtFrontend(
  { plane, router }: LabFrontend,
  expectNone: (what: string, count: number) => void,
): void {
  expectNone('replies under way', plane.liveReplies)
  const { prefill, decode } = router.status()
  for (const [name, pool] of [['prefill', prefill] as const, ['decode', decode] as const]) {
    expectNone(`${name} pool, queued requests`, pool.queuedRequests)
    expectNone(`${name} pool, prefills under way`, pool.prefillsUnderWay)
    for (const rank of pool.ranks) {
      const at = `${name} pool, worker ${rank.workerId}`
      expectNone(`${at}, requests`, rank.activeRequests)
      expectNone(`${at}, requests of other frontends`, rank.peerRequests)
      expectNone(`${at}, prefill tokens`, rank.activePrefillTokens)
      expectNone(`${at}, decode blocks`, rank.activeDecodeBlocks)
      expectNone(`${at}, reported blocks`, rank.reportedBlocks ?? 0)
    }
  }
}

function leftAt(worker: LabWorker, expectNone: (what: string, count: number) => void): void {
  const at = `worker ${worker.workerId}`
  const { inFlight, openOffers } = worker.health
  const { running, queued, activeBlocks } = worker.load
  expectNone(`${at}, requests`, inFlight)
  expectNone(`${at}, KV offers`, openOffers)
  expectNone(`${at}, held KV bytes`, worker.heldKvBytes)
  if (worker.hasStopped) return
  expectNone(`${at}, running in the engine`, running)
  expectNone(`${at}, queued in the engine`, queued)
  expectNone(`${at}, blocks in use`, activeBlocks)
}
