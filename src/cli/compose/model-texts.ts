/**
 * Tokenizers and chat templates of all models that this frontend serves. They are in files here (local, or
 * fetched from a worker), at an engine that this process talks to, or at an engine beside a worker in another
 * process.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { LongTexts } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import { hasRemoteTokenizer } from '../../request/index.ts'
import type { RequestPlane, WorkerCard } from '../../request/index.ts'
import type { EncodeOptions, ModelText, Tokenizer } from '../../text/index.ts'
import { LearningPlane, RemoteTexts, WorkerTexts } from '../../upstream/index.ts'
import type { RemoteText } from '../../upstream/index.ts'
import { ModelPlaces } from './model-place.ts'
import type { ModelPlacesOptions } from './model-place.ts'

const REPORT_EVERY_MS = 60_000

export class ModelTexts {
  /** Tokenizers at the engines of this process. */
  readonly atEngines = new RemoteTexts()
  /** Text requests over this plane are tokenized here. */
  readonly plane: RequestPlane
  readonly #atWorkers: WorkerTexts
  readonly #places: ModelPlaces
  readonly #onProblem: (problem: string) => void
  readonly #longTexts = new LongTexts()
  #reported = ''
  #reportedMs = 0

  /** `workers`: the plane that requests are sent to. */
  constructor(workers: RequestPlane, places: ModelPlacesOptions) {
    const atWorkers = new WorkerTexts(workers, osClock)
    this.plane = new LearningPlane(workers, (workerId) => atWorkers.ofWorker(workerId))
    this.#atWorkers = atWorkers
    this.#places = new ModelPlaces(places)
    this.#onProblem = places.onProblem
  }

  /** Registers a worker of another process. */
  workerJoined(card: WorkerCard): void {
    this.#atWorkers.workerJoined(card)
  }

  workerLeft(workerId: WorkerId): void {
    this.#atWorkers.workerLeft(workerId)
  }

  /** Rejects with `model.load_failed`, or with the reason why no worker provides it. */
  async textOf(card: WorkerCard): Promise<ModelText> {
    try {
      return hasRemoteTokenizer(card) ? await this.#remote(card) : await this.#places.text(card)
    } catch (thrown) {
      // The message for clients contains no paths of this machine; the log for operators does.
      const { message } = BatonError.from(thrown)
      const { model } = card.engine
      this.#report(`tokenizer and template of ${model} cannot be loaded: ${message}`)
      throw thrown
    }
  }

  /** It is retried every few seconds; the log repeats the sentence once a minute. */
  #report(problem: string): void {
    const nowMs = performance.now()
    if (problem === this.#reported && nowMs - this.#reportedMs < REPORT_EVERY_MS) return
    this.#reported = problem
    this.#reportedMs = nowMs
    this.#onProblem(problem)
  }

  /** For a long text, and for every text of a model whose tokenizer is elsewhere. */
  async encode(
    card: WorkerCard,
    tokenizer: Tokenizer,
    text: string,
    options: EncodeOptions,
  ): Promise<Uint32Array> {
    if (hasRemoteTokenizer(card)) {
      const there = await this.#remote(card)
      return await there.tokenizer.encodeThere(text, options)
    }
    return await this.#longTexts.encode(tokenizer, text, options, () => this.#places.place(card))
  }

  async close(): Promise<void> {
    await this.#longTexts.close()
    this.#places.close()
  }

  async #remote(card: WorkerCard): Promise<RemoteText> {
    return this.atEngines.textOf(card.engine.textDigest) ?? (await this.#atWorkers.load(card))
  }
}
