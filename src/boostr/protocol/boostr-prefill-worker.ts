/**
 * The prefill role of the dialect `boostr`, without sockets.
 *
 * 30 + 10 (either order) → compute → too large? 31 with 0 : 32, 32 → wait 33 → 31
 *
 * Descriptors and token ids are queued per router and paired in order, never dropped. Every request ends with
 * exactly one PREFILL_DONE; 0 bytes mean that no KV reached the decode worker. A request belongs to the connection
 * that it came over: a router that connects again may be another process, which counts its ids anew, so an answer to
 * an earlier connection would be taken for an answer to another request. KV goes through a lane per decode worker
 * (`kv-lane.ts`), which matches the acknowledgements.
 */
import type { Clock } from '../../base/index.ts'
import { protocolError } from '../../wire/index.ts'
import { KV_BYTES_MAX } from './boostr-link.ts'
import type { BoostrLink, BoostrNode, BoostrPeers } from './boostr-link.ts'
import { decodeBoostr, encodeBoostr } from './boostr-message.ts'
import type { BoostrFrame } from './boostr-message.ts'
import { KV_ENVELOPE_BYTES, wrapKv } from './kv-envelope.ts'
import { KvLane } from './kv-lane.ts'
import { prefilledKv, watchRejection } from './module-values.ts'

/**
 * Computes the KV of a prompt and calls back once, possibly before it returns. A returned promise matters only if it is
 * rejected.
 */
export type PrefillFunction = (
  tokenIds: BigInt64Array,
  done: (result: Uint8Array | Error) => void,
) => void

export interface BoostrPrefillOptions {
  readonly link: BoostrLink
  readonly clock: Clock
  readonly prefill: PrefillFunction
  readonly decodeWorkers: readonly number[]
  readonly maxKvTransferBytes: number
  /** Most bytes of KV that wait for decode workers; a request above that gets none. Default 4 GiB. */
  readonly kvBytesMax?: number
  readonly peers: BoostrPeers
  /** Milliseconds that a decode worker may take to acknowledge. */
  readonly ackMs: number
  /** Most unpaired descriptors or prompts of one router. */
  readonly parkedMax: number
  /** Called for a prefill that threw, or handed over something else than KV, to be logged. */
  readonly onFault?: (thrown: unknown) => void
}

/** One connection of a router, what came over it unpaired, and what is not answered yet. */
interface Caller {
  readonly rank: number
  readonly descriptors: Omit<Job, 'payload' | 'isCancelled'>[]
  readonly prompts: BigInt64Array[]
  readonly jobs: Map<bigint, Job>
}

interface Job {
  readonly caller: Caller
  readonly requestId: bigint
  readonly decodeRank: number
  readonly seqLen: number
  payload: Uint8Array
  isCancelled: boolean
}

export class BoostrPrefillWorker implements BoostrNode {
  readonly #options: BoostrPrefillOptions
  /** The connections that are open; a job whose caller is not among them is answered to nobody. */
  readonly #callers = new Map<number, Caller>()
  /** By decode worker. */
  readonly #lanes = new Map<number, KvLane<Job>>()
  #jobCount = 0

  constructor(options: BoostrPrefillOptions) {
    this.#options = options
    const { link, clock, ackMs } = options
    const onEnd = (job: Job, kvBytes: number): void => this.#answer(job, kvBytes)
    for (const decodeRank of options.decodeWorkers) {
      this.#lanes.set(decodeRank, new KvLane({ decodeRank, link, clock, ackMs, onEnd }))
    }
  }

  /** Requests that are not answered yet. */
  get load(): number {
    return this.#jobCount
  }

  /** KV that is being sent or waits for that. */
  get heldBytes(): number {
    let bytes = 0
    for (const lane of this.#lanes.values()) bytes += lane.heldBytes
    return bytes
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
        this.#lanes.get(fromRank)?.onAck(this.#options.peers === 'baton' && message.isRefused)
        break
      case 'request-cancel': {
        const job = this.#callers.get(fromRank)?.jobs.get(message.requestId)
        if (job) this.#cancel(job)
        break
      }
      default:
        throw protocolError(
          'message.unexpected',
          `a prefill worker must not receive ${message.kind}`,
        )
    }
  }

  close(): void {
    for (const lane of this.#lanes.values()) lane.close()
  }

  peerGone(rank: number): void {
    const caller = this.#callers.get(rank)
    this.#callers.delete(rank)
    for (const job of caller?.jobs.values() ?? []) this.#cancel(job)
    this.#lanes.get(rank)?.peerGone()
  }

  peerBack(rank: number): void {
    this.#lanes.get(rank)?.peerBack()
  }

  /** A half that finds its other half is not queued, so only unpaired halves count. */
  #park(rank: number, put: (caller: Caller) => void): void {
    const caller = this.#callers.get(rank) ?? {
      rank,
      descriptors: [],
      prompts: [],
      jobs: new Map<bigint, Job>(),
    }
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
      if (descriptor && tokenIds) {
        this.#start({ ...descriptor, payload: NO_BYTES, isCancelled: false }, tokenIds)
      }
    }
  }

  #start(job: Job, tokenIds: BigInt64Array): void {
    this.#jobCount += 1
    job.caller.jobs.set(job.requestId, job)
    if (tokenIds.length !== job.seqLen || !this.#lanes.has(job.decodeRank)) {
      this.#answer(job, 0)
      return
    }
    // The prefill may change the ids, or pass their memory on to a thread.
    const lastToken = tokenIds.at(-1) ?? 0n
    let isAnswered = false
    const once = (act: () => void): void => {
      if (isAnswered) return
      isAnswered = true
      act()
    }
    const fail = (thrown: unknown): void => {
      this.#options.onFault?.(thrown)
      once(() => this.#answer(job, 0))
    }
    const done = (given: unknown): void => once(() => this.#offer(job, lastToken, given))
    try {
      watchRejection(this.#options.prefill(tokenIds, done), fail)
    } catch (thrown) {
      fail(thrown)
    }
  }

  #offer(job: Job, lastToken: bigint, given: unknown): void {
    const lane = this.#lanes.get(job.decodeRank)
    const payload =
      job.isCancelled || !this.#isOpen(job.caller) ? null : this.#payloadOf(job, lastToken, given)
    if (!lane || payload === null) {
      this.#answer(job, 0)
      return
    }
    job.payload = payload
    lane.push(job)
  }

  /** A copy, because the module may use its bytes again while they wait. Null: it gets no KV. */
  #payloadOf(
    { caller, requestId, seqLen }: Job,
    lastToken: bigint,
    given: unknown,
  ): Uint8Array | null {
    const { maxKvTransferBytes, kvBytesMax = KV_BYTES_MAX, peers, onFault } = this.#options
    try {
      const kv = prefilledKv(given)
      const length = kv.length + (peers === 'baton' ? KV_ENVELOPE_BYTES : 0)
      // Empty KV means that there is none: no request would follow it, and without an id it would be in the next one's way.
      const isSendable = length > 0 && length <= maxKvTransferBytes
      if (!isSendable || this.heldBytes + length > kvBytesMax) return null
      const envelope = { startPosition: seqLen, routerRank: caller.rank, requestId, lastToken }
      return peers === 'baton' ? wrapKv(envelope, kv) : new Uint8Array(kv)
    } catch (thrown) {
      onFault?.(thrown)
      return null
    }
  }

  /** A prompt is computed to its end. KV that is on its way is followed by the message, so that it is dropped there. */
  #cancel(job: Job): void {
    const { caller, requestId, decodeRank } = job
    const lane = this.#lanes.get(decodeRank)
    job.isCancelled = true
    lane?.drop((waiting) => waiting === job)
    if (this.#options.peers !== 'baton' || !lane?.isSending(job)) return
    const message = { kind: 'request-cancel', requestId, routerRank: caller.rank } as const
    this.#options.link.send(decodeRank, encodeBoostr(message))
  }

  #answer(job: Job, kvBytes: number): void {
    this.#jobCount -= 1
    job.payload = NO_BYTES
    const { caller, requestId } = job
    caller.jobs.delete(requestId)
    if (!this.#isOpen(caller)) return
    const done = { kind: 'prefill-done', requestId, kvBytes: BigInt(kvBytes) } as const
    this.#options.link.send(caller.rank, encodeBoostr(done))
  }

  #isOpen(caller: Caller): boolean {
    return this.#callers.get(caller.rank) === caller
  }
}

const NO_BYTES = new Uint8Array(0)
