/**
 * What every `Discovery` must do, as checks that a test runs. Each check takes two views of one fleet (the same
 * object for `memory`, two as if in two processes for `file`) and throws when the contract is violated.
 */
import { isDeepStrictEqual } from 'node:util'
import { workerIdOf } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Discovery, DiscoveryObserver } from '../discovery/index.ts'

export interface DiscoveryPair {
  /** The view that workers use to register. */
  readonly worker: Discovery
  /** The view that a frontend watches. */
  readonly frontend: Discovery
}

export interface DiscoveryCheck {
  readonly name: string
  readonly run: (pair: DiscoveryPair) => Promise<void>
}

export function sampleCard(id: number, change: Partial<WorkerCard> = {}): WorkerCard {
  return {
    workerId: workerIdOf(id),
    mode: 'agg',
    host: '127.0.0.1',
    port: 1000 + id,
    engine: { model: 'sample', kvCacheBlockSize: 16 },
    engineName: 'sim',
    publishesKvEvents: true,
    version: '0.0.0',
    pid: process.pid,
    ...change,
  }
}

/** Records what an observer is told, and waits for an entry. */
export class DiscoveryRecord implements DiscoveryObserver {
  readonly told: string[] = []
  readonly cards = new Map<string, WorkerCard>()
  #waiters: (() => void)[] = []

  joined(card: WorkerCard): void {
    this.cards.set(card.workerId, card)
    this.#tell(`joined ${card.workerId}`)
  }

  left(workerId: string, reason: string): void {
    this.cards.delete(workerId)
    this.#tell(`left ${workerId} ${reason}`)
  }

  unanswered(address: string, why: string | null): void {
    this.#tell(`${why === null ? 'answered' : 'unanswered'} ${address}`)
  }

  alsoAt(workerId: string, address: string, used: string): void {
    this.#tell(`also ${workerId} ${address} ${used}`)
  }

  unreadable(entry: string): void {
    this.#tell(`unreadable ${entry}`)
  }

  discoveryAway(why: string): void {
    this.#tell(`away ${why}`)
  }

  discoveryBack(): void {
    this.#tell('back')
  }

  refused(why: string): void {
    this.#tell(`refused ${why}`)
  }

  /** Rejects when the entry is missing after `timeoutMs`. */
  async until(what: string, timeoutMs = 50_000): Promise<void> {
    const endMs = Date.now() + timeoutMs
    while (!this.told.some((line) => line.includes(what))) {
      const leftMs = endMs - Date.now()
      if (leftMs <= 0) throw new Error(`never told '${what}', only: ${this.told.join(', ')}`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        this.#waiters.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
  }

  #tell(line: string): void {
    this.told.push(line)
    for (const wake of this.#waiters.splice(0)) wake()
  }
}

function expectEqual(actual: unknown, expected: unknown, what: string): void {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Error(`${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`)
}

export const DISCOVERY_CHECKS: readonly DiscoveryCheck[] = [
  {
    name: 'existing workers - are reported before watch resolves',
    run: async ({ worker, frontend }) => {
      await worker.register(sampleCard(1))
      await worker.register(sampleCard(2))
      const record = new DiscoveryRecord()
      const watch = await frontend.watch(record)
      expectEqual([...watch.cards.keys()].sort(), ['1', '2'], 'cards')
      expectEqual(record.told.toSorted(), ['joined 1', 'joined 2'], 'told')
    },
  },
  {
    name: 'a card - arrives unchanged',
    run: async ({ worker, frontend }) => {
      const card = sampleCard(3, { mode: 'prefill', taints: ['gpu=a'], topology: { rack: 'r1' } })
      await worker.register(card)
      const watch = await frontend.watch(new DiscoveryRecord())
      expectEqual(watch.cards.get(card.workerId), card, 'card')
    },
  },
  {
    name: 'workers that join and leave - are reported once each, in this order',
    run: async ({ worker, frontend }) => {
      const record = new DiscoveryRecord()
      await frontend.watch(record)
      const registration = await worker.register(sampleCard(4))
      await record.until('joined 4')
      await registration.close()
      await registration.close()
      await record.until('left 4 closed')
      expectEqual(record.told, ['joined 4', 'left 4 closed'], 'told')
    },
  },
  {
    name: 'a changed card - is reported again, an unchanged one is not',
    run: async ({ worker, frontend }) => {
      const record = new DiscoveryRecord()
      await frontend.watch(record)
      const registration = await worker.register(sampleCard(5))
      await record.until('joined 5')
      await registration.update(sampleCard(5))
      await registration.update(sampleCard(5, { taints: ['new'] }))
      while (record.cards.get('5')?.taints === undefined) {
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      expectEqual(record.told, ['joined 5', 'joined 5'], 'told')
    },
  },
  {
    name: 'an id in use - is refused',
    run: async ({ worker, frontend }) => {
      await worker.register(sampleCard(6))
      const code = await frontend.register(sampleCard(6)).then(
        () => 'accepted',
        (error: { code?: string }) => error.code,
      )
      expectEqual(code, 'request.conflict', 'second registration')
    },
  },
  {
    name: 'a closed watch - reports nothing more',
    run: async ({ worker, frontend }) => {
      const closed = new DiscoveryRecord()
      const open = new DiscoveryRecord()
      const watch = await frontend.watch(closed)
      await frontend.watch(open)
      watch.close()
      watch.close()
      await worker.register(sampleCard(7))
      await open.until('joined 7')
      expectEqual(closed.told, [], 'told')
    },
  },
  {
    name: 'a worker that registers again - is reported again',
    run: async ({ worker, frontend }) => {
      const record = new DiscoveryRecord()
      await frontend.watch(record)
      const first = await worker.register(sampleCard(8))
      await record.until('joined 8')
      await first.close()
      await record.until('left 8')
      await worker.register(sampleCard(8))
      while (record.told.length < 3) await new Promise((resolve) => setTimeout(resolve, 5))
      expectEqual(record.told, ['joined 8', 'left 8 closed', 'joined 8'], 'told')
    },
  },
]
