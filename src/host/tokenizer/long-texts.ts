/**
 * Tokenises long texts so that they do not delay any stream: in steps between the other work of the event loop, shorter
 * texts first, and on tokenizer threads those that are too long or too many for that or cannot be divided.
 *
 * A thread has a heap, a vocabulary and compiled code of its own. That takes 30 MB and more, and for a vocabulary of
 * 150,000 tokens some tenths of a second before the first text, so threads are only used for what needs them.
 */
import { setImmediate as others } from 'node:timers/promises'
import type { EncodeOptions, Tokenizer } from '../../text/index.ts'
import { TextQueue } from './text-queue.ts'
import { TokenizerThreads } from './tokenizer-threads.ts'
import type { TokenizerThreadsOptions } from './tokenizer-threads.ts'

/** Characters that are encoded in steps or wait for it: less than a tenth of a second of work. */
const STEPPED_CHARS_MAX = 1_500_000

interface Stepped {
  readonly text: string
  readonly steps: Iterator<undefined, Uint32Array>
  resolve(tokenIds: Uint32Array): void
  reject(error: unknown): void
}

export class LongTexts {
  readonly #threads: TokenizerThreads
  readonly #queue = new TextQueue<Stepped>()
  #characters = 0

  constructor(options: TokenizerThreadsOptions = {}) {
    this.#threads = new TokenizerThreads(options)
  }

  /** Rejects like `TokenizerThreads.encode`. `modelPath` is asked for only if a thread is used. */
  async encode(
    tokenizer: Tokenizer,
    text: string,
    options: EncodeOptions,
    modelPath: () => Promise<string>,
  ): Promise<Uint32Array> {
    const hasRoom = this.#characters + text.length <= STEPPED_CHARS_MAX
    const steps = hasRoom ? (tokenizer.encodeInSteps?.(text, options) ?? null) : null
    if (steps === null) return await this.#threads.encode(await modelPath(), text, options)
    return await new Promise((resolve, reject) => {
      this.#queue.add({ text, steps, resolve, reject }, performance.now())
      this.#characters += text.length
      if (this.#characters === text.length) void this.#run()
    })
  }

  close(): Promise<void> {
    return this.#threads.close()
  }

  async #run(): Promise<void> {
    for (let task = this.#queue.take(); task !== undefined; task = this.#queue.take()) {
      try {
        task.resolve(await inTurns(task.steps))
      } catch (error) {
        task.reject(error)
      }
      this.#characters -= task.text.length
    }
  }
}

async function inTurns<Result>(steps: Iterator<undefined, Result>): Promise<Result> {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
    await others()
  }
}
