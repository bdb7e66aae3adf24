/**
 * Embeddings with llama.cpp: the output of the model's last layer at the last token of a text.
 *
 * Owns: a context besides the one that generates, opened by the first request, so that neither disturbs the other's
 * KV. Requests run one after the other; a step computes one piece of one text.
 */
import { BatonError } from '../../base/index.ts'
import type { EmbeddingContext } from '../native/embedding-context.ts'
import type { StepNews } from './step-news.ts'

interface EmbedderOptions {
  readonly open: () => EmbeddingContext
  readonly prefillChunk: number
  readonly news: StepNews
}

interface Task {
  readonly id: number
  readonly tokenIds: Uint32Array
  computed: number
}

export class Embedder {
  readonly #options: EmbedderOptions
  readonly #tasks: Task[] = []
  #context: EmbeddingContext | undefined

  constructor(options: EmbedderOptions) {
    this.#options = options
  }

  get hasWork(): boolean {
    return this.#tasks.length > 0
  }

  submit(id: number, tokenIds: Uint32Array): void {
    this.#tasks.push({ id, tokenIds, computed: 0 })
  }

  /** False: the id is not one of these. A cancelled text gets an empty vector. */
  cancel(id: number): boolean {
    const at = this.#tasks.findIndex((task) => task.id === id)
    if (at === -1) return false
    const [task] = this.#tasks.splice(at, 1)
    if (task !== undefined && task.computed > 0) this.#context?.clear()
    this.#options.news.embedded(id, new Float32Array(0))
    return true
  }

  step(): void {
    const [task] = this.#tasks
    if (task === undefined) return
    try {
      this.#computePiece(task)
    } catch (thrown) {
      this.#tasks.shift()
      this.#context?.clear()
      this.#options.news.failed(task.id, BatonError.from(thrown, 'backend.unknown'))
    }
  }

  close(): void {
    this.#tasks.length = 0
    this.#context?.close()
    this.#context = undefined
  }

  #computePiece(task: Task): void {
    const context = (this.#context ??= this.#options.open())
    const from = task.computed
    const piece = task.tokenIds.subarray(from, from + this.#options.prefillChunk)
    task.computed += piece.length
    const isLast = task.computed >= task.tokenIds.length
    context.compute(piece, from, isLast)
    if (!isLast) return
    const vector = context.vector()
    this.#tasks.shift()
    context.clear()
    this.#options.news.embedded(task.id, vector)
  }
}
