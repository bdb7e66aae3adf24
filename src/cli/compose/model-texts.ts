/**
 * Tokenizers and templates of everything that this frontend serves, wherever they are: in files here (read, or fetched from a
 * worker), at an engine that this process speaks to, or at an engine beside a worker of another process.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { TokenizerThreads } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import { hasRemoteTokenizer } from '../../request/index.ts'
import type { RequestPlane, WorkerCard } from '../../request/index.ts'
import type { EncodeOptions, ModelText } from '../../text/index.ts'
import { LearningPlane, RemoteTexts, WorkerTexts } from '../../upstream/index.ts'
import type { RemoteText } from '../../upstream/index.ts'
import { ModelPlaces } from './model-place.ts'
import type { ModelPlacesOptions } from './model-place.ts'

export class ModelTexts {
  /** At the engines of this process. */
  readonly atEngines = new RemoteTexts()
  /** What comes over it can be made into text here. */
  readonly plane: RequestPlane
  readonly #atWorkers: WorkerTexts
  readonly #places: ModelPlaces
  readonly #onProblem: (problem: string) => void
  readonly #threads = new TokenizerThreads()

  /** `workers`: where requests go. */
  constructor(workers: RequestPlane, places: ModelPlacesOptions) {
    const atWorkers = new WorkerTexts(workers, osClock)
    this.plane = new LearningPlane(workers, (workerId) => atWorkers.ofWorker(workerId))
    this.#atWorkers = atWorkers
    this.#places = new ModelPlaces(places)
    this.#onProblem = places.onProblem
  }

  /** A worker of another process. */
  workerJoined(card: WorkerCard): void {
    this.#atWorkers.workerJoined(card)
  }

  workerLeft(workerId: WorkerId): void {
    this.#atWorkers.workerLeft(workerId)
  }

  /** Rejects with `model.load_failed`, or with why no worker tells it. */
  async textOf(card: WorkerCard): Promise<ModelText> {
    try {
      return hasRemoteTokenizer(card) ? await this.#remote(card) : await this.#places.text(card)
    } catch (thrown) {
      // Clients do not read paths of this machine in what they are told; whoever runs it does.
      const { message } = BatonError.from(thrown)
      const { model } = card.engine
      this.#onProblem(`tokenizer and template of ${model} cannot be loaded: ${message}`)
      throw thrown
    }
  }

  /** Not on the event loop of this process. */
  async encode(card: WorkerCard, text: string, options: EncodeOptions): Promise<Uint32Array> {
    if (hasRemoteTokenizer(card)) {
      const { tokenizer } = await this.#remote(card)
      return await tokenizer.encodeThere(text, options)
    }
    return await this.#threads.encode(await this.#places.place(card), text, options)
  }

  async close(): Promise<void> {
    await this.#threads.close()
    this.#places.close()
  }

  async #remote(card: WorkerCard): Promise<RemoteText> {
    return this.atEngines.textOf(card.engine.model) ?? (await this.#atWorkers.load(card))
  }
}
