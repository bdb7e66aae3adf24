/**
 * Passes the bytes of a forwarded stream to the client's socket. A slow client slows the engine down; a client
 * that does not read is disconnected after a time.
 */
import type { Clock, Timer } from '../../base/index.ts'
import type { ForwardFlow } from '../../request/index.ts'
import type { HttpStream, StreamWriter } from '../http/http-exchange.ts'

interface ForwardStreamOptions {
  readonly flow: ForwardFlow
  readonly clock: Clock
  /** Milliseconds in which a client has to read what waits for it, when that is more than its socket takes. */
  readonly stalledMs: number
  /** The connection was closed: a client that does not read would not get a last event either. */
  readonly onStalled: () => void
}

export class ForwardStream implements HttpStream {
  readonly #options: ForwardStreamOptions
  #writer: StreamWriter | null = null
  #waiting = ''
  #isHeld = false
  #stall: Timer | null = null
  #state: 'open' | 'ended' | 'broken' = 'open'

  constructor(options: ForwardStreamOptions) {
    this.#options = options
  }

  open(writer: StreamWriter): void {
    this.#writer = writer
    if (this.#waiting !== '') writer.write(this.#waiting, true)
    this.#waiting = ''
    if (this.#state === 'ended') writer.end()
    if (this.#state === 'broken') writer.flow?.abort()
  }

  /** One character per byte. */
  write(bytes: string, isAlone = false): void {
    const writer = this.#writer
    if (this.#state !== 'open') return
    if (writer === null) {
      this.#waiting += bytes
      return
    }
    if (isAlone && writer.writeNow !== undefined) writer.writeNow(bytes)
    else writer.write(bytes, true)
    if (!this.#isHeld && writer.flow?.isFull === true) this.#hold(writer)
  }

  end(): void {
    if (this.#state !== 'open') return
    this.#state = 'ended'
    this.#stall?.cancel()
    this.#writer?.end()
  }

  /** Ends a stream that is incomplete and in whose format an error cannot be expressed. */
  breakOff(): void {
    if (this.#state !== 'open') return
    this.#state = 'broken'
    this.#stall?.cancel()
    this.#writer?.flow?.abort()
  }

  #hold(writer: StreamWriter): void {
    const { clock, flow, onStalled, stalledMs } = this.#options
    this.#isHeld = true
    flow.pause()
    this.#stall = clock.after(stalledMs, () => {
      if (!this.#isHeld || this.#state !== 'open') return
      this.breakOff()
      onStalled()
    })
    writer.flow?.whenRead(() => {
      this.#isHeld = false
      this.#stall?.cancel()
      flow.resume()
    })
  }
}
