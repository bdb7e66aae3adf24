/**
 * The prefill role of the dialect `boostr`, without sockets.
 *
 * 30 + 10 (either order) → compute → too large? 31 with 0 : 32, 32 → wait 33 → 31
 *
 * Descriptors and token ids are queued per router and paired in order, never dropped. Every request ends with
 * exactly one PREFILL_DONE; 0 bytes mean that no KV reached the decode worker. A request belongs to the connection
 * that it came over: a router that connects again may be another process, which counts its ids anew, so an answer to
 * an earlier connection would be taken for an answer to another request. Acknowledgements carry no id: per decode
 * worker they are matched in the order of sending, and one KV at a time is sent to each.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import { protocolError } from '../../wire/index.ts'
import type { BoostrLink, BoostrNode, BoostrPeers } from './boostr-link.ts'
import { decodeBoostr, encodeBoostr, encodeKvCache } from './boostr-message.ts'
import type { BoostrFrame } from './boostr-message.ts'
import { wrapKv } from './kv-envelope.ts'

/** Computes the KV of a prompt and calls back once, possibly before it returns. */
export type PrefillFunction = (
  tokenIds: BigInt64Array,
  done: (result: Uint8Array | BatonError) => void,
) => void

export interface BoostrPrefillOptions {
  readonly link: BoostrLink
  readonly clock: Clock
  readonly prefill: PrefillFunction
  readonly decodeWorkers: readonly number[]
  readonly maxKvTransferBytes: number
  readonly peers: BoostrPeers
  /** Milliseconds that a decode worker may take to acknowledge. */
  readonly ackMs: number
  /** Most unpaired descriptors or prompts of one router. */
  readonly parkedMax: number
  /** Called for a prefill that threw, to be logged. */
  readonly onFault?: (thrown: unknown) => void
}

/** One connection of a router, and what came over it unpaired. */
interface Caller {
  readonly rank: number
  readonly descriptors: Omit<Job, 'payload'>[]
  readonly prompts: BigInt64Array[]
}

interface Job {
  readonly caller: Caller
  readonly requestId: bigint
  readonly decodeRank: number
  readonly seqLen: number
  payload: Uint8Array
}

/** For one decode worker: the KV that is being sent, and what waits for that. */
interface Lane {
  sent: Job | null
  waiting: Job[]
  timer: Timer | null
}

export class BoostrPrefillWorker implements BoostrNode {
  readonly #options: BoostrPrefillOptions
  /** The connections that are open; a job whose caller is not among them is answered to nobody. */
  readonly #callers = new Map<number, Caller>()
  readonly #lanes = new Map<number, Lane>()
  #jobCount = 0

  constructor(options: BoostrPrefillOptions) {
    this.#options = options
    for (const rank of options.decodeWorkers) {
      this.#lanes.set(rank, { sent: null, waiting: [], timer: null })
    }
  }

  /** Requests that are not answered yet. */
  get load(): number {
    return this.#jobCount
  }

  receive(fromRank: number, frame: BoostrFrame): void {
    const message = decodeBoostr(frame.tag, frame.payload)
    switch (message.kind) {
      case 'prefill-request':
        this.#park(fromRank, (caller) => caller.descriptors.push({ ...message, caller }))
        break
      case 'activation':
        this.#park(fromRank, ({ prompts }) => prompts.push(message.tokenIds))
        break
      case 'kv-cache-ack':
        this.#onAck(fromRank)
        break
      default:
        throw protocolError(
          'message.unexpected',
          `a prefill worker must not receive ${message.kind}`,
        )
    }
  }

  close(): void {
    for (const lane of this.#lanes.values()) {
      lane.timer?.cancel()
      lane.sent = null
      lane.waiting = []
    }
  }

  peerGone(rank: number): void {
    const caller = this.#callers.get(rank)
    this.#callers.delete(rank)
    // KV that is being sent stays in its lane, because its acknowledgement still comes.
    for (const lane of this.#lanes.values()) {
      const jobs = lane.waiting.filter((job) => job.caller === caller)
      lane.waiting = lane.waiting.filter((job) => job.caller !== caller)
      for (const job of jobs) this.#answer(job, 0)
    }
    const lane = this.#lanes.get(rank)
    if (lane) this.#empty(lane)
  }

  /** Its decode worker is lost. */
  #empty(lane: Lane): void {
    const jobs = lane.sent ? [lane.sent, ...lane.waiting] : lane.waiting
    lane.timer?.cancel()
    lane.sent = null
    lane.waiting = []
    for (const job of jobs) this.#answer(job, 0)
  }

  /** A half that finds its other half is not queued, so only unpaired halves count. */
  #park(rank: number, put: (caller: Caller) => void): void {
    const caller = this.#callers.get(rank) ?? { rank, descriptors: [], prompts: [] }
    this.#callers.set(rank, caller)
    put(caller)
    this.#pair(caller)
    const { parkedMax } = this.#options
    if (Math.max(caller.descriptors.length, caller.prompts.length) <= parkedMax) return
    throw protocolError(
      'message.unexpected',
      `router ${rank} sent too many unpaired messages: at most ${parkedMax} are allowed`,
    )
  }

  #pair({ descriptors, prompts }: Caller): void {
    while (descriptors.length > 0 && prompts.length > 0) {
      const descriptor = descriptors.shift()
      const tokenIds = prompts.shift()
      if (descriptor && tokenIds) this.#start({ ...descriptor, payload: NO_BYTES }, tokenIds)
    }
  }

  #start(job: Job, tokenIds: BigInt64Array): void {
    this.#jobCount += 1
    if (tokenIds.length !== job.seqLen || !this.#lanes.has(job.decodeRank)) {
      this.#answer(job, 0)
      return
    }
    let isAnswered = false
    const done = (result: Uint8Array | BatonError): void => {
      if (isAnswered) return
      isAnswered = true
      if (result instanceof BatonError) this.#answer(job, 0)
      else this.#offer(job, tokenIds, result)
    }
    try {
      this.#options.prefill(tokenIds, done)
    } catch (thrown) {
      this.#options.onFault?.(thrown)
      done(BatonError.from(thrown, 'backend.unknown'))
    }
  }

  #offer(job: Job, tokenIds: BigInt64Array, kv: Uint8Array): void {
    const { maxKvTransferBytes, peers } = this.#options
    const { caller, requestId, seqLen } = job
    const lastToken = tokenIds.at(-1) ?? 0n
    const envelope = { startPosition: seqLen, routerRank: caller.rank, requestId, lastToken }
    job.payload = peers === 'baton' ? wrapKv(envelope, kv) : kv
    const lane = this.#lanes.get(job.decodeRank)
    if (!lane || job.payload.length > maxKvTransferBytes || !this.#isOpen(caller)) {
      this.#answer(job, 0)
      return
    }
    lane.waiting.push(job)
    this.#sendNext(lane)
  }

  #sendNext(lane: Lane): void {
    if (lane.sent) return
    const job = lane.waiting.shift()
    if (!job) return
    lane.sent = job
    lane.timer = this.#options.clock.after(this.#options.ackMs, () => {
      lane.sent = null
      this.#answer(job, 0)
      this.#sendNext(lane)
    })
    for (const frame of encodeKvCache(job.payload)) this.#options.link.send(job.decodeRank, frame)
  }

  #onAck(rank: number): void {
    const lane = this.#lanes.get(rank)
    const job = lane?.sent
    // An acknowledgement after its deadline: the job was answered already.
    if (!lane || !job) return
    lane.timer?.cancel()
    lane.sent = null
    this.#answer(job, job.payload.length)
    this.#sendNext(lane)
  }

  #answer(job: Job, kvBytes: number): void {
    this.#jobCount -= 1
    job.payload = NO_BYTES
    const { caller, requestId } = job
    if (!this.#isOpen(caller)) return
    const done = { kind: 'prefill-done', requestId, kvBytes: BigInt(kvBytes) } as const
    this.#options.link.send(caller.rank, encodeBoostr(done))
  }

  #isOpen(caller: Caller): boolean {
    return this.#callers.get(caller.rank) === caller
  }
}

const NO_BYTES = new Uint8Array(0)
