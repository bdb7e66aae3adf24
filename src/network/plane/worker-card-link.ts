/**
 * Follows the card of a worker of which only the address is known, over one persistent connection: the card is
 * requested once, and from then on the worker sends every change.
 */
import { BatonError } from '../../base/index.ts'
import { decodePlain } from '../../wire/index.ts'
import { WorkerConversation } from './ask-worker.ts'
import type { AskWorkerOptions } from './ask-worker.ts'

export interface CardListener {
  /**
   * The card as received, unchecked; null: the worker accepts no requests now. Called now and whenever it may have
   * changed.
   */
  onCard(card: unknown): void
  /** Called once: the worker cannot be reached or was lost. Nothing follows. */
  onLost(reason: BatonError): void
}

export class WorkerCardLink {
  readonly #options: AskWorkerOptions
  readonly #listener: CardListener
  #conversation: WorkerConversation | null = null
  #isClosed = false

  constructor(options: AskWorkerOptions, listener: CardListener) {
    this.#options = options
    this.#listener = listener
    void this.#run()
  }

  /** Idempotent; the listener is not called any more. */
  close(): void {
    this.#isClosed = true
    this.#conversation?.close()
  }

  async #run(): Promise<void> {
    try {
      const conversation = await WorkerConversation.open(this.#options, {
        onCard: (payload) => this.#take(payload),
        onClosed: (reason) => this.#lose(reason),
      })
      this.#conversation = conversation
      // It was closed while the connection was being opened.
      if (this.#isClosed) conversation.close()
      else this.#take(await conversation.card())
    } catch (thrown) {
      this.#lose(BatonError.from(thrown))
    }
  }

  #take(payload: Uint8Array): void {
    if (this.#isClosed) return
    try {
      const isNone = payload.length === 0
      this.#listener.onCard(isNone ? null : decodePlain(payload, 0, payload.length, 'a card'))
    } catch (thrown) {
      this.#lose(BatonError.from(thrown))
    }
  }

  #lose(reason: BatonError): void {
    if (this.#isClosed) return
    this.close()
    this.#listener.onLost(reason)
  }
}
