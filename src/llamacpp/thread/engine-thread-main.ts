/**
 * The engine's thread: owns model, context and loop, and computes as long as there is work.
 *
 * Messages are handled between two steps; without work the thread waits for the next one. A message to the owner
 * wakes its thread and those after it, up to the client's, which for a small model costs more than the step itself.
 * Tokens of steps that follow each other within `TOKENS_WAIT_MS` are therefore sent together. A slower step is never
 * delayed.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { BatonError } from '../../base/index.ts'
import { openModel } from './open-model.ts'
import type { OpenModel } from './open-model.ts'
import { StepLoop } from './step-loop.ts'
import type { FromThread, ThreadSettings, ToThread } from './thread-messages.ts'

/** How long a token may wait for those of the next steps; the first and the last of a request never wait. */
const TOKENS_WAIT_MS = 3

class EngineThread {
  readonly #port: MessagePort
  readonly #model: OpenModel
  readonly #loop: StepLoop
  #isClosed = false
  #postedMs = 0

  constructor(port: MessagePort, { config }: ThreadSettings) {
    this.#port = port
    this.#model = openModel(config)
    this.#loop = new StepLoop(this.#model, config)
    const { session, contextLength, probeToken, layout, batching, decodesTogether } = this.#model
    this.#post({
      kind: 'started',
      vocabSize: session.vocabSize,
      contextLength,
      probeToken,
      layout,
      batching,
      decodesTogether,
      cpu: session.api.cpuName,
    })
    port.on('message', (message: ToThread) => this.#work(message))
  }

  #work(first: ToThread): void {
    this.#take(first)
    for (;;) {
      for (;;) {
        const next = receiveMessageOnPort(this.#port) as { message: ToThread } | undefined
        if (next === undefined) break
        this.#take(next.message)
      }
      if (this.#isClosed || !this.#loop.hasWork) return
      this.#loop.step()
      this.#tell()
    }
  }

  #tell(): void {
    const nowMs = performance.now()
    if (!this.#loop.isNewsUrgent && nowMs - this.#postedMs < TOKENS_WAIT_MS) return
    const news = this.#loop.takeNews()
    if (news === undefined) return
    this.#postedMs = nowMs
    this.#post(news)
  }

  #take(message: ToThread): void {
    if (this.#isClosed) return
    switch (message.kind) {
      case 'run':
        return this.#loop.submit(message.request)
      case 'embed':
        return this.#loop.embed(message.id, message.tokenIds)
      case 'cancel':
        return this.#loop.cancel(message.id)
      case 'close':
        this.#isClosed = true
        this.#loop.close()
        this.#model.close()
        this.#post({ kind: 'closed' })
        this.#port.close()
    }
  }

  #post(message: FromThread): void {
    this.#port.postMessage(message)
  }
}

const port = parentPort
if (port !== null) {
  try {
    new EngineThread(port, workerData as ThreadSettings)
  } catch (thrown) {
    const error = BatonError.from(thrown, 'model.load_failed').toValue()
    port.postMessage({ kind: 'not-started', error } satisfies FromThread)
  }
}
