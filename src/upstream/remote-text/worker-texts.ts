/**
 * Tokenizers and templates that only the engines beside workers of other processes have: one per different
 * tokenizer, learned from any of its workers when first needed, and asked of any worker that is available.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, WorkerId } from '../../base/index.ts'
import { hasRemoteTokenizer } from '../../request/index.ts'
import type { RequestPlane, WorkerCard } from '../../request/index.ts'
import { LEARNING_TEXT } from './learning-text.ts'
import { remoteTextOf } from './text-description.ts'
import type { RemoteText } from './text-description.ts'
import { askDescription, WorkerTokenizer } from './tokenizer-question.ts'

/** Limit of such models in a fleet; the one learned first is dropped. */
const TEXTS_MAX = 64

export class WorkerTexts {
  readonly #plane: RequestPlane
  readonly #clock: Clock
  readonly #cards = new Map<WorkerId, WorkerCard>()
  readonly #texts = new Map<string, RemoteText>()

  constructor(plane: RequestPlane, clock: Clock) {
    this.#plane = plane
    this.#clock = clock
  }

  workerJoined(card: WorkerCard): void {
    if (hasRemoteTokenizer(card)) this.#cards.set(card.workerId, card)
    else this.#cards.delete(card.workerId)
  }

  workerLeft(workerId: WorkerId): void {
    this.#cards.delete(workerId)
  }

  /** Null: it was not needed yet, or its tokenizer is available here. */
  ofWorker(workerId: WorkerId): RemoteText | null {
    const card = this.#cards.get(workerId)
    return card === undefined ? null : this.ofCard(card)
  }

  ofCard({ engine }: WorkerCard): RemoteText | null {
    return this.#texts.get(engine.textDigest ?? '') ?? null
  }

  /** Rejects when no worker that has it answers. */
  async load({ engine }: WorkerCard): Promise<RemoteText> {
    const { model, textDigest } = engine
    if (textDigest === undefined) {
      throw new BatonError(
        'model.load_failed',
        `a worker of ${model} does not report which tokenizer it has`,
      )
    }
    const known = this.#texts.get(textDigest)
    if (known !== undefined) return known
    const options = {
      plane: this.#plane,
      clock: this.#clock,
      workers: () => this.#workersWith(textDigest),
      model,
    }
    const description = await askDescription(options)
    const text = remoteTextOf(description)
    text.tokenizer.addSource(new WorkerTokenizer(options, description.knowsPlainText))
    await text.tokenizer.encodeThere(LEARNING_TEXT, { special: false })
    this.#texts.set(textDigest, text)
    const [oldest] = this.#texts.keys()
    if (this.#texts.size > TEXTS_MAX && oldest !== undefined) this.#texts.delete(oldest)
    return text
  }

  #workersWith(textDigest: string): readonly WorkerId[] {
    const cards = [...this.#cards.values()].filter(({ engine }) => engine.textDigest === textDigest)
    return cards.map(({ workerId }) => workerId)
  }
}
