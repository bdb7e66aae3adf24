/** A frontend with an empty fleet whose workers a test adds and removes, and the fleet news that it reports. */
import { workerIdOf } from '../../src/base/index.ts'
import type { FleetNews } from '../../src/frontend/models/fleet-news.ts'
import type { ModelDifference, WorkerCard } from '../../src/request/index.ts'
import { card, ScriptedFrontend } from './scripted-frontend.ts'

/** What all workers of a model have in common. */
export const AGREED = {
  vocabulary: 'v1',
  tokenizer: 't1',
  template: 'c1',
  checksum: 'sum1',
} as const

export function cardOf(id: number, change: Partial<WorkerCard> = {}): WorkerCard {
  const usual = card({ kvCacheBlockSize: 16 }, workerIdOf(id))
  return { ...usual, agreement: AGREED, startedAtEpochMs: id, ...change }
}

/** News as short text, for comparison. */
function told(news: FleetNews): string[] {
  switch (news.kind) {
    case 'workerJoined':
      return [`joined ${news.card.workerId}`]
    case 'workerLeft':
      return [`left ${news.workerId} ${news.reason}`]
    case 'workerRefused':
      return [`refused ${news.card.workerId} ${fields(news.differences)}`]
    case 'workerUnreachable':
      return [`unreachable ${news.workerId} ${news.fault.message}`]
    case 'nameTaken':
      return [`taken ${news.name} by ${news.owner}, not ${news.model}`]
    case 'modelForgotten':
      return [`forgot ${news.model}`]
    case 'workerConnected':
      return []
  }
}

export class RegistryFleet {
  /** Fleet news as text, oldest first. */
  readonly news: string[] = []
  readonly scripted: ScriptedFrontend

  constructor(options: { reportsLinks?: boolean; modelForgetMs?: number } = {}) {
    const { reportsLinks, modelForgetMs } = options
    this.scripted = new ScriptedFrontend({
      empty: true,
      ...(modelForgetMs === undefined ? {} : { limits: { modelForgetMs } }),
      options: {
        ...(reportsLinks === undefined ? {} : { reportsLinks }),
        fleetObserver: (news) => this.news.push(...told(news)),
      },
    })
  }

  get registry() {
    return this.scripted.frontend.registry
  }

  async pass(ms: number): Promise<void> {
    const { clock } = this.scripted
    await clock.run(clock.nowMs() + ms)
  }

  async health() {
    return (await this.scripted.get('/health')).json
  }
}

function fields(differences: readonly ModelDifference[]): string {
  return differences.map(({ field }) => field).join('+')
}
