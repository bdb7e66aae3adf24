/**
 * Which models are served: learned from the cards of workers that join and leave. Hands what the fleet tells on to the
 * router of the worker's model.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, WorkerId } from '../base/index.ts'
import { servedModelNames } from '../request/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { DecisionRecord, FleetObserver, ModelRouter } from '../router/index.ts'
import type { ModelText } from '../text/index.ts'
import { ServedModel } from './served-model.ts'

interface ModelRegistryOptions {
  readonly clock: Clock
  readonly createRouter: (model: string) => ModelRouter
  readonly loadText: (card: WorkerCard) => Promise<ModelText>
}

interface FoundDecisions {
  readonly model: ServedModel
  readonly decisions: readonly DecisionRecord[]
}

export class ModelRegistry implements FleetObserver {
  readonly #options: ModelRegistryOptions
  readonly #models = new Map<string, ServedModel>()
  /** Every name that a client may use, aliases too. */
  readonly #names = new Map<string, ServedModel>()
  readonly #ofWorker = new Map<WorkerId, ServedModel>()

  constructor(options: ModelRegistryOptions) {
    this.#options = options
  }

  workerJoined(card: WorkerCard): void {
    const [name, ...aliases] = servedModelNames(card.engine)
    if (name === undefined) return
    const before = this.#ofWorker.get(card.workerId)
    if (before !== undefined && before.name !== name) {
      this.workerLeft(card.workerId, 'serves another model now')
    }
    const model = this.#models.get(name) ?? this.#create(name)
    for (const alias of [...aliases, ...(card.engine.loraAdapters ?? [])]) {
      if (!this.#names.has(alias)) this.#names.set(alias, model)
    }
    this.#ofWorker.set(card.workerId, model)
    model.join(card)
    model.router.fleet.workerJoined(card)
  }

  workerLeft(workerId: WorkerId, reason: string): void {
    const model = this.#ofWorker.get(workerId)
    if (model === undefined) return
    this.#ofWorker.delete(workerId)
    model.leave(workerId)
    model.router.fleet.workerLeft(workerId, reason)
  }

  kvEvents: FleetObserver['kvEvents'] = (workerId, batch) => {
    this.#ofWorker.get(workerId)?.router.fleet.kvEvents(workerId, batch)
  }

  load: FleetObserver['load'] = (workerId, report) => {
    this.#ofWorker.get(workerId)?.router.fleet.load(workerId, report)
  }

  get models(): readonly ServedModel[] {
    return [...this.#models.values()]
  }

  /** Names that can be asked for now, aliases too. */
  servedNames(): readonly (readonly [string, ServedModel])[] {
    return [...this.#names].filter(([, model]) => model.isReady)
  }

  find(name: string): ServedModel | undefined {
    return this.#names.get(name)
  }

  /** Without a name: the only model there is. Throws 404 for an unknown one, 503 for one that cannot be served. */
  ready(name: string | undefined): ServedModel {
    const model = this.known(name)
    if (!model.isReady) throw model.notReady()
    return model
  }

  known(name: string | undefined): ServedModel {
    const model = name === undefined ? this.#only() : this.#names.get(name)
    if (model !== undefined) return model
    throw new BatonError('request.not_found', `The model \`${name ?? ''}\` does not exist.`, {
      data: { param: 'model', clientCode: 'model_not_found' },
    })
  }

  /** The decisions of a call, oldest first; each of several choices is a request of its own, `<id>-<choice>`. */
  decisionsOf(requestId: string): FoundDecisions | null {
    for (const model of this.#models.values()) {
      const { router } = model
      const decisions = [...(router.explain(requestId) ?? [])]
      for (let choice = 0; ; choice++) {
        const ofChoice = router.explain(`${requestId}-${choice}`)
        if (ofChoice === null) break
        decisions.push(...ofChoice)
      }
      if (decisions.length > 0) return { model, decisions }
    }
    return null
  }

  close(): void {
    for (const model of this.#models.values()) model.router.close()
  }

  #only(): ServedModel {
    const [first] = this.#models.values()
    if (first !== undefined && this.#models.size === 1) return first
    if (first === undefined) {
      throw new BatonError('request.not_found', 'No model is served: no worker is registered.', {
        data: { param: 'model', clientCode: 'model_not_found' },
      })
    }
    throw new BatonError(
      'request.invalid_argument',
      '`model`: must be given, several models are served',
      { data: { param: 'model' } },
    )
  }

  #create(name: string): ServedModel {
    const model = new ServedModel({
      name,
      router: this.#options.createRouter(name),
      createdSeconds: Math.floor(this.#options.clock.epochMs() / 1000),
      loadText: this.#options.loadText,
    })
    this.#models.set(name, model)
    this.#names.set(name, model)
    return model
  }
}
