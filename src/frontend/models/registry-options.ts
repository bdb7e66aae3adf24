/** What a model registry is made with, and what it is asked. */
import type { Clock, Random, WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelRouter } from '../../router/index.ts'
import type { ModelText } from '../../text/index.ts'
import type { FleetNewsObserver } from './fleet-news.ts'

export interface ModelRegistryOptions {
  readonly clock: Clock
  readonly random: Random
  readonly createRouter: (model: string, version: string) => ModelRouter
  readonly loadText: (card: WorkerCard) => Promise<ModelText>
  readonly reportsLinks?: boolean
  readonly modelForgetMs: number
  readonly fleetObserver?: FleetNewsObserver
  /** `always`: requests are forwarded unchanged, also when no tokenizer can be loaded. */
  readonly forwarding?: { readonly always: boolean }
}

/** What determines the version of a request besides the weights. */
export interface VersionWish {
  readonly sessionId?: string | undefined
  /** The request is pinned to this worker. */
  readonly workerId?: WorkerId | undefined
}
