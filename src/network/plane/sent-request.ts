/**
 * The handle of a request that was sent to a worker. There is one for each running stream, so it is an object of two
 * fields instead of one with a closure.
 */
import type { RequestHandle } from '../../request/index.ts'

/** The connection that the request was sent over. */
interface Sender {
  cancel(streamId: number, kind: 'stop' | 'kill'): void
}

export class SentRequest implements RequestHandle {
  readonly #sender: Sender
  readonly #streamId: number

  constructor(sender: Sender, streamId: number) {
    this.#sender = sender
    this.#streamId = streamId
  }

  cancel(kind: 'stop' | 'kill'): void {
    this.#sender.cancel(this.#streamId, kind)
  }
}
