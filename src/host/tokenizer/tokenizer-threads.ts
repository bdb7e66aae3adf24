/**
 * Tokenises long texts on separate threads, so that a prompt of 60,000 tokens does not delay any stream.
 *
 * A thread starts when a long text finds all others busy, up to one per core. It loads a model's tokenizer once and
 * takes one text after the other, shorter ones first. If a thread dies, only its current text fails. A thread that has
 * been idle for a while ends, which frees its heap and its tokenizer.
 */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { BatonError } from '../../base/index.ts'
import type { EncodeOptions } from '../../text/index.ts'
import { TextQueue } from './text-queue.ts'

export interface EncodeTask {
  readonly modelPath: string
  readonly text: string
  readonly options: EncodeOptions
}

export type EncodeResult = { readonly tokenIds: Uint32Array } | { readonly failure: string }

interface Waiting extends EncodeTask {
  resolve(tokenIds: Uint32Array): void
  reject(error: BatonError): void
}

export interface TokenizerThreadsOptions {
  /** Absent: one per core. */
  readonly threadsMax?: number
  /** Milliseconds after which an idle thread ends. */
  readonly idleMs?: number
  /** The program of each thread; absent: the one beside this file. */
  readonly program?: URL
}

interface Thread {
  readonly worker: Worker
  task: Waiting | null
  /** Ends the thread when it stays idle. */
  idle: NodeJS.Timeout | null
}

const WAITING_MAX = 256

/** Loading a vocabulary of 150,000 tokens again takes a few tenths of a second. */
const IDLE_MS = 30_000

/** A thread has its own heap; its young generation is kept as small as possible without a loss of speed. */
const THREAD_LIMITS = { maxYoungGenerationSizeMb: 8 }

export class TokenizerThreads {
  readonly #threadsMax: number
  readonly #idleMs: number
  readonly #program: URL
  readonly #threads = new Set<Thread>()
  readonly #queue = new TextQueue<Waiting>()
  #isClosed = false

  constructor({ threadsMax, idleMs, program }: TokenizerThreadsOptions = {}) {
    this.#threadsMax = threadsMax ?? availableParallelism()
    this.#idleMs = idleMs ?? IDLE_MS
    this.#program = program ?? new URL('./tokenizer-thread-main.js', import.meta.url)
  }

  /**
   * Rejects with `capacity.exhausted` when too many long texts wait, and `model.load_failed` when the model is not
   * readable.
   */
  encode(modelPath: string, text: string, options: EncodeOptions): Promise<Uint32Array> {
    if (this.#queue.size >= WAITING_MAX) {
      const data = { limit: WAITING_MAX, current: this.#queue.size }
      return Promise.reject(
        new BatonError('capacity.exhausted', 'too many long prompts wait to be tokenised', {
          data,
        }),
      )
    }
    return new Promise((resolve, reject) => {
      this.#queue.add({ modelPath, text, options, resolve, reject }, performance.now())
      this.#assign()
    })
  }

  /** Idempotent; waiting texts are refused. */
  async close(): Promise<void> {
    this.#isClosed = true
    const threads = [...this.#threads]
    this.#threads.clear()
    const error = new BatonError('runtime.internal', 'the frontend is closing')
    for (const { task, idle } of threads) {
      if (idle !== null) clearTimeout(idle)
      task?.reject(error)
    }
    for (let task = this.#queue.take(); task !== undefined; task = this.#queue.take()) {
      task.reject(error)
    }
    await Promise.all(threads.map(({ worker }) => worker.terminate()))
  }

  #assign(): void {
    while (this.#queue.size > 0 && !this.#isClosed) {
      const thread = this.#idleThread()
      if (thread === null) return
      const task = this.#queue.take() as Waiting
      thread.task = task
      if (thread.idle !== null) clearTimeout(thread.idle)
      thread.idle = null
      const { modelPath, text, options } = task
      thread.worker.postMessage({ modelPath, text, options } satisfies EncodeTask)
    }
  }

  /** Null: all are busy, and the maximum number of threads is reached. */
  #idleThread(): Thread | null {
    for (const thread of this.#threads) if (thread.task === null) return thread
    return this.#threads.size < this.#threadsMax ? this.#start() : null
  }

  #start(): Thread {
    const worker = new Worker(this.#program, { resourceLimits: THREAD_LIMITS })
    const thread: Thread = { worker, task: null, idle: null }
    worker.on('message', (result: EncodeResult) => this.#settle(thread, result))
    worker.on('error', (error) => this.#lose(thread, error.message))
    worker.on('exit', () => this.#lose(thread, 'it exited'))
    worker.unref()
    this.#threads.add(thread)
    return thread
  }

  #settle(thread: Thread, result: EncodeResult): void {
    const { task } = thread
    thread.task = null
    if ('tokenIds' in result) task?.resolve(result.tokenIds)
    else task?.reject(new BatonError('model.load_failed', result.failure))
    this.#assign()
    if (thread.task === null && this.#threads.has(thread)) {
      thread.idle = setTimeout(() => this.#end(thread), this.#idleMs).unref()
    }
  }

  #end(thread: Thread): void {
    this.#threads.delete(thread)
    void thread.worker.terminate()
  }

  #lose(thread: Thread, reason: string): void {
    if (!this.#threads.delete(thread)) return
    if (thread.idle !== null) clearTimeout(thread.idle)
    const message = `a tokenizer thread was lost: ${reason}`
    thread.task?.reject(new BatonError('runtime.internal', message))
    this.#assign()
  }
}
