/**
 * Tokenises long texts on a thread of its own, so that a prompt of 60,000 tokens does not hold up anybody's stream.
 *
 * The thread starts with the first long text, loads a model's tokenizer once, and takes one text after the other.
 */
import { Worker } from 'node:worker_threads'
import { BatonError, InFlightMap } from '../../base/index.ts'
import type { EncodeOptions } from '../../text/index.ts'

export interface EncodeTask {
  readonly id: number
  readonly modelPath: string
  readonly text: string
  readonly options: EncodeOptions
}

export type EncodeResult =
  | { readonly id: number; readonly tokenIds: Uint32Array }
  | { readonly id: number; readonly failure: string }

interface Waiting {
  resolve(tokenIds: Uint32Array): void
  reject(error: BatonError): void
}

const WAITING_MAX = 256

export class TokenizerThread {
  readonly #waiting = new InFlightMap<number, Waiting>()
  #thread: Worker | null = null
  #lastId = 0

  /** Rejects with `capacity.exhausted` when too many long texts wait, `model.load_failed` when the model is not readable. */
  encode(modelPath: string, text: string, options: EncodeOptions): Promise<Uint32Array> {
    if (this.#waiting.size >= WAITING_MAX) {
      const data = { limit: WAITING_MAX, current: this.#waiting.size }
      return Promise.reject(
        new BatonError('capacity.exhausted', 'too many long prompts wait to be tokenised', {
          data,
        }),
      )
    }
    const id = ++this.#lastId
    const task: EncodeTask = { id, modelPath, text, options }
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#start().postMessage(task)
    })
  }

  /** Idempotent; what waits is refused. */
  async close(): Promise<void> {
    const thread = this.#thread
    this.#thread = null
    this.#refuseAll('the frontend is closing')
    await thread?.terminate()
  }

  #start(): Worker {
    if (this.#thread !== null) return this.#thread
    const thread = new Worker(new URL('./tokenizer-thread-main.js', import.meta.url))
    thread.on('message', (result: EncodeResult) => this.#settle(result))
    thread.on('error', (error) => this.#lose(thread, error.message))
    thread.on('exit', () => this.#lose(thread, 'it ended'))
    thread.unref()
    this.#thread = thread
    return thread
  }

  #settle(result: EncodeResult): void {
    const waiting = this.#waiting.get(result.id)
    this.#waiting.delete(result.id)
    if ('tokenIds' in result) waiting?.resolve(result.tokenIds)
    else waiting?.reject(new BatonError('model.load_failed', result.failure))
  }

  #lose(thread: Worker, reason: string): void {
    if (this.#thread !== thread) return
    this.#thread = null
    this.#refuseAll(`the tokenizer's thread was lost: ${reason}`)
  }

  #refuseAll(reason: string): void {
    const error = new BatonError('runtime.internal', reason)
    for (const waiting of this.#waiting.values()) waiting.reject(error)
    this.#waiting.clear()
  }
}
