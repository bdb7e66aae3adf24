/**
 * The owner's end of the engine's thread: starts it, sends it work, receives the results.
 *
 * Models of one process are loaded one after the other, because loading llama.cpp's libraries concurrently is not
 * safe.
 */
import { Worker } from 'node:worker_threads'
import { BatonError } from '../../base/index.ts'
import type { LlamaCppConfig } from '../model/llamacpp-options.ts'
import { FFI_NAME, FFI_VERSION } from '../native/ffi-package.ts'
import type {
  FromThread,
  StartedMessage,
  StepMessage,
  ThreadSettings,
  ToThread,
} from './thread-messages.ts'

interface EngineThreadOptions {
  readonly config: LlamaCppConfig
  readonly onStep: (message: StepMessage) => void
  /** The result of a step with only tokens: pairs of run and token. */
  readonly onTokens: (tokens: readonly number[]) => void
  /** Called when the thread ended unexpectedly. */
  readonly onLost: (error: BatonError) => void
}

interface OpenedThread {
  readonly thread: EngineThread
  readonly started: StartedMessage
  /** The address of memory that the thread reads or writes. */
  readonly addressOf: (bytes: Uint8Array) => bigint
}

/** Settles when no other model is being loaded. */
let loading: Promise<unknown> = Promise.resolve()

export class EngineThread {
  readonly #options: EngineThreadOptions
  readonly #worker: Worker
  readonly #ended: Promise<void>
  #isClosing = false

  private constructor(options: EngineThreadOptions) {
    this.#options = options
    this.#worker = startWorker({ config: options.config })
    this.#ended = new Promise((resolve) => {
      this.#worker.once('exit', () => resolve())
    })
  }

  /** Rejects with `model.load_failed`. */
  static open(options: EngineThreadOptions): Promise<OpenedThread> {
    const opening = loading.then(async () => {
      const addressOf = await loadAddresses()
      const thread = new EngineThread(options)
      return { thread, started: await thread.#start(), addressOf }
    })
    loading = opening.catch(() => undefined)
    return opening
  }

  send(message: ToThread): void {
    if (!this.#isClosing) this.#worker.postMessage(message)
  }

  /** Waits for the step that is being computed. */
  async close(): Promise<void> {
    if (!this.#isClosing) this.#worker.postMessage({ kind: 'close' } satisfies ToThread)
    this.#isClosing = true
    await this.#ended
  }

  #start(): Promise<StartedMessage> {
    const worker = this.#worker
    return new Promise((resolve, reject) => {
      let isStarted = false
      let failure: BatonError | undefined
      worker.on('message', (message: FromThread) => {
        if (!('kind' in message)) return this.#options.onTokens(message)
        if (message.kind === 'step') return this.#options.onStep(message)
        if (message.kind === 'not-started') failure = BatonError.fromValue(message.error)
        if (message.kind !== 'started') return
        isStarted = true
        resolve(message)
      })
      worker.once('error', (error) => {
        failure ??= BatonError.from(error, 'backend.unknown')
      })
      worker.once('exit', () => {
        const error = failure ?? new BatonError('backend.unknown', "the engine's thread has ended")
        if (!isStarted) reject(error)
        else if (!this.#isClosing) this.#options.onLost(error)
      })
    })
  }
}

/** The engine's packages are optional, so modules that need them are loaded on demand. */
async function loadAddresses(): Promise<OpenedThread['addressOf']> {
  try {
    const { addressOf } = await import('./block-memory.ts')
    return addressOf
  } catch (cause) {
    throw new BatonError(
      'model.load_failed',
      `the llama.cpp engine needs ${FFI_NAME}, which cannot be loaded: run \`npm i ${FFI_NAME}@${FFI_VERSION}\`, or use --engine sim`,
      { cause },
    )
  }
}

/**
 * When it runs from sources (tests, benches), the thread needs a TypeScript loader, which takes half a second of
 * CPU. Tests therefore use a bundled thread made of the same sources (`test/bundle-setup.ts`).
 */
function startWorker(settings: ThreadSettings): Worker {
  const isSource = import.meta.url.endsWith('.ts')
  const name = `./engine-thread-main.${isSource ? 'ts' : 'js'}`
  const url = new URL(name, import.meta.url)
  const bundled = isSource ? process.env['TEST_ENGINE_THREAD'] : undefined
  if (!isSource || bundled !== undefined)
    return new Worker(bundled ?? url, { workerData: settings })
  const code = `import('tsx/esm/api').then((tsx) => { tsx.register(); return import(${JSON.stringify(url.href)}) })`
  return new Worker(code, { eval: true, workerData: settings })
}
