/**
 * Models that were replaced because other workers serve their name from now on. Each keeps its router and its workers
 * until the new workers are connected and none of its own requests waits: those in the queue, those whose prompt is
 * being computed for a decode worker, and those that were being tokenized when the workers changed.
 */
import type { Clock, WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { FleetObserver } from '../../router/index.ts'
import type { ServedModel } from './served-model.ts'

interface LeavingModelsOptions {
  readonly clock: Clock
  /** The model that has the name now. */
  readonly mainOf: (name: string) => ServedModel | undefined
  /** The worker gets no more requests of a model that has left. */
  readonly onReleased: (workerId: WorkerId) => void
}

/** A model leaves when two looks in succession find no request; a request is tokenized within this time. */
const LOOK_MS = 1_000

export class LeavingModels {
  readonly #options: LeavingModelsOptions
  readonly #models = new Set<ServedModel>()

  constructor(options: LeavingModelsOptions) {
    this.#options = options
  }

  get models(): readonly ServedModel[] {
    return [...this.#models]
  }

  add(model: ServedModel): void {
    model.stopTimers()
    this.#models.add(model)
    this.#lookLater(model, false)
  }

  has(model: ServedModel): boolean {
    return this.#models.has(model)
  }

  /** True when the worker may still get requests of a model that leaves. */
  hasWorker(workerId: WorkerId): boolean {
    return this.models.some((model) => model.cardOf(workerId) !== undefined)
  }

  /** The model that gets a new request: the one that leaves, as long as the workers of the other are not connected. */
  insteadOf(model: ServedModel): ServedModel {
    if (this.#models.size === 0 || isConnected(model)) return model
    return this.models.findLast(({ name, isReady }) => name === model.name && isReady) ?? model
  }

  /** A worker whose card has changed cannot take requests that were prepared for the old one. */
  workerJoined(card: WorkerCard): void {
    for (const model of this.#models) {
      const known = model.cardOf(card.workerId)
      if (known === undefined) continue
      if (model.agreesWith(card) && known.mode === card.mode) continue
      release(model, card.workerId, 'its card has changed')
    }
  }

  workerLeft(workerId: WorkerId, reason: string): void {
    for (const model of this.#models) release(model, workerId, reason)
  }

  workerReachable(workerId: WorkerId): void {
    for (const model of this.#models) {
      const card = model.cardOf(workerId)
      if (card !== undefined) model.router.fleet.workerJoined(card)
    }
  }

  workerUnreachable(workerId: WorkerId, reason: string): void {
    for (const { router } of this.#models) router.fleet.workerLeft(workerId, reason)
  }

  /** The router needs the load to see which workers take a request from its queue; it has no use for KV events. */
  load: FleetObserver['load'] = (workerId, report) => {
    for (const { router } of this.#models) router.fleet.load(workerId, report)
  }

  close(): void {
    for (const model of this.#models) model.close()
    this.#models.clear()
  }

  #lookLater(model: ServedModel, wasIdle: boolean): void {
    model.forgetting = this.#options.clock.after(LOOK_MS, () => {
      const isIdle = !model.router.hasWaiting() && !this.#isNeeded(model)
      if (wasIdle && isIdle) this.#remove(model)
      else this.#lookLater(model, isIdle)
    })
  }

  #isNeeded({ name, isReady }: ServedModel): boolean {
    const main = this.#options.mainOf(name)
    return isReady && main !== undefined && !isConnected(main)
  }

  #remove(model: ServedModel): void {
    this.#models.delete(model)
    model.close()
    for (const { workerId } of model.cards) {
      release(model, workerId, 'other workers serve')
      this.#options.onReleased(workerId)
    }
  }
}

/** Each of its workers is connected or cannot be reached. */
function isConnected({ isReady, unreachable }: ServedModel): boolean {
  return isReady && unreachable.every(({ fault }) => fault !== null)
}

function release(model: ServedModel, workerId: WorkerId, reason: string): void {
  model.leave(workerId)
  model.router.fleet.workerLeft(workerId, reason)
}
