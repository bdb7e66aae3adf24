/**
 * Tokenises long texts so that they do not delay any stream: one at a time in steps between the other work of the
 * event loop, and on tokenizer threads those that arrive meanwhile or cannot be divided.
 *
 * A thread has a heap, a vocabulary and compiled code of its own. That takes 30 MB and more, and for a vocabulary of
 * 150,000 tokens some tenths of a second before the first text, so threads are only used for what needs them.
 */
import { setImmediate as others } from 'node:timers/promises'
import type { EncodeOptions, Tokenizer } from '../../text/index.ts'
import { TokenizerThreads } from './tokenizer-threads.ts'
import type { TokenizerThreadsOptions } from './tokenizer-threads.ts'

export class LongTexts {
  readonly #threads: TokenizerThreads
  /** A text is being encoded in steps. */
  #isStepping = false

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
    const steps = this.#isStepping ? null : (tokenizer.encodeInSteps?.(text, options) ?? null)
    if (steps === null) return await this.#threads.encode(await modelPath(), text, options)
    this.#isStepping = true
    try {
      for (;;) {
        const { done, value } = steps.next()
        if (done === true) return value
        await others()
      }
    } finally {
      this.#isStepping = false
    }
  }

  close(): Promise<void> {
    return this.#threads.close()
  }
}
