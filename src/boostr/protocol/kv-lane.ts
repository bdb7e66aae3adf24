/**
 * The KV of one prefill worker for one decode worker: one payload at a time is sent and acknowledged.
 *
 * Acknowledgements carry no id. When one is overdue, the connection is therefore closed and opened again, so that it
 * cannot come later and be taken for that of the next payload. What waits is sent over the new connection.
 */
import type { Clock, Timer } from '../../base/index.ts'
import { protocolError } from '../../wire/index.ts'
import type { BoostrLink } from './boostr-link.ts'
import { encodeKvCache } from './boostr-message.ts'

export interface KvLaneOptions<Job> {
  readonly decodeRank: number
  readonly link: BoostrLink
  readonly clock: Clock
  readonly ackMs: number
  /** Called once for each job: the bytes that have been acknowledged, or 0. */
  readonly onEnd: (job: Job, kvBytes: number) => void
}

export class KvLane<Job extends { readonly payload: Uint8Array }> {
  readonly #options: KvLaneOptions<Job>
  #sent: Job | null = null
  #waiting: Job[] = []
  /** Until the acknowledgement, or until the connection is open again. */
  #timer: Timer | null = null
  #isReopening = false

  constructor(options: KvLaneOptions<Job>) {
    this.#options = options
  }

  push(job: Job): void {
    this.#waiting.push(job)
    this.#sendNext()
  }

  /** Throws `transport.protocol` if nothing awaits an acknowledgement: it would be taken for the next payload's. */
  onAck(): void {
    const job = this.#sent
    if (!job) throw protocolError('message.unexpected', 'KV was acknowledged that was not sent')
    this.#clear()
    this.#options.onEnd(job, job.payload.length)
    this.#sendNext()
  }

  /** Ends the waiting jobs that fit. What is being sent stays, because its acknowledgement still comes. */
  drop(fits: (job: Job) => boolean): void {
    const dropped = this.#waiting.filter(fits)
    this.#waiting = this.#waiting.filter((job) => !fits(job))
    for (const job of dropped) this.#options.onEnd(job, 0)
  }

  peerGone(): void {
    if (!this.#isReopening) this.#empty()
  }

  peerBack(): void {
    if (!this.#isReopening) return
    this.#clear()
    this.#sendNext()
  }

  close(): void {
    this.#clear()
    this.#waiting = []
  }

  #sendNext(): void {
    if (this.#sent || this.#isReopening) return
    const job = this.#waiting.shift()
    if (!job) return
    const { link, clock, decodeRank, ackMs } = this.#options
    this.#sent = job
    this.#timer = clock.after(ackMs, () => this.#onOverdue(job))
    for (const frame of encodeKvCache(job.payload)) link.send(decodeRank, frame)
  }

  #onOverdue(job: Job): void {
    const { link, clock, decodeRank, ackMs, onEnd } = this.#options
    this.#clear()
    this.#isReopening = true
    this.#timer = clock.after(ackMs, () => this.#empty())
    onEnd(job, 0)
    link.reset(decodeRank)
  }

  #empty(): void {
    const jobs = this.#sent ? [this.#sent, ...this.#waiting] : this.#waiting
    this.close()
    for (const job of jobs) this.#options.onEnd(job, 0)
  }

  #clear(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#sent = null
    this.#isReopening = false
  }
}
