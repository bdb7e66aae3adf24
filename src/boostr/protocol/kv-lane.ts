/**
 * The KV of one prefill worker for one decode worker: one payload at a time is sent and acknowledged.
 *
 * Acknowledgements carry no id. When one is overdue, the connection is therefore closed and opened again, so that it
 * cannot come later and be taken for that of the next payload. When the connection is lost, for this or another reason,
 * what waits is sent over the next one, if there is one soon.
 */
import type { Clock, Timer } from '../../base/index.ts'
import { protocolError } from '../../wire/index.ts'
import { REJOIN_MS } from './boostr-link.ts'
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
  #connection: 'open' | 'reopening' | 'gone' = 'open'

  constructor(options: KvLaneOptions<Job>) {
    this.#options = options
  }

  get heldBytes(): number {
    let bytes = this.#sent?.payload.length ?? 0
    for (const { payload } of this.#waiting) bytes += payload.length
    return bytes
  }

  isSending(job: Job): boolean {
    return this.#sent === job
  }

  push(job: Job): void {
    if (this.#connection === 'gone') {
      this.#options.onEnd(job, 0)
      return
    }
    this.#waiting.push(job)
    this.#sendNext()
  }

  /** Throws `transport.protocol` if nothing awaits an acknowledgement: it would be taken for the next payload's. */
  onAck(isRefused = false): void {
    const job = this.#sent
    if (!job) throw protocolError('message.unexpected', 'KV was acknowledged that was not sent')
    this.#clear()
    this.#options.onEnd(job, isRefused ? 0 : job.payload.length)
    this.#sendNext()
  }

  /** Ends the waiting jobs that fit. What is being sent stays, because its acknowledgement still comes. */
  drop(fits: (job: Job) => boolean): void {
    const dropped = this.#waiting.filter(fits)
    this.#waiting = this.#waiting.filter((job) => !fits(job))
    for (const job of dropped) this.#options.onEnd(job, 0)
  }

  peerGone(): void {
    const job = this.#sent
    if (this.#connection === 'open') this.#awaitReopening()
    if (job) this.#options.onEnd(job, 0)
  }

  peerBack(): void {
    if (this.#connection === 'open') return
    this.#clear()
    this.#connection = 'open'
    this.#sendNext()
  }

  /** The connections end after this, and nothing waits for them any more. */
  close(): void {
    this.#clear()
    this.#waiting = []
    this.#connection = 'gone'
  }

  #sendNext(): void {
    if (this.#sent || this.#connection !== 'open') return
    const job = this.#waiting.shift()
    if (!job) return
    const { link, clock, decodeRank, ackMs } = this.#options
    this.#sent = job
    this.#timer = clock.after(ackMs, () => this.#onOverdue(job))
    for (const frame of encodeKvCache(job.payload)) link.send(decodeRank, frame)
  }

  #onOverdue(job: Job): void {
    this.#awaitReopening()
    this.#options.onEnd(job, 0)
    this.#options.link.reset(this.#options.decodeRank)
  }

  #awaitReopening(): void {
    this.#clear()
    this.#connection = 'reopening'
    this.#timer = this.#options.clock.after(REJOIN_MS, () => {
      this.#connection = 'gone'
      this.drop(() => true)
    })
  }

  #clear(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#sent = null
  }
}
