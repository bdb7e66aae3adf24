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
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { protocolError } from '../../wire/index.ts'
import { KV_BYTES_MAX } from './boostr-link.ts'
import type { BoostrLink, BoostrNode, BoostrPeers } from './boostr-link.ts'
import { decodeBoostr, encodeBoostr } from './boostr-message.ts'
import type { BoostrFrame } from './boostr-message.ts'
import { wrapKv } from './kv-envelope.ts'
import { KvLane } from './kv-lane.ts'

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
  /** Most bytes of KV that wait for decode workers; a request above that gets none. Default 4 GiB. */
  readonly kvBytesMax?: number
  readonly peers: BoostrPeers
  /** Milliseconds that a decode worker may take to acknowledge. */
  readonly ackMs: number
  /** Most unpaired descriptors or prompts of one router. */
  readonly parkedMax: number
  /** Called for a prefill that threw, to be logged. */
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
    let isAnswered = false
    const done = (result: Uint8Array | BatonError): void => {
      if (isAnswered) return
      isAnswered = true
      if (job.isCancelled || result instanceof BatonError) this.#answer(job, 0)
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
    const { maxKvTransferBytes, kvBytesMax = KV_BYTES_MAX, peers } = this.#options
    const { caller, requestId, seqLen } = job
    const lastToken = tokenIds.at(-1) ?? 0n
    const envelope = { startPosition: seqLen, routerRank: caller.rank, requestId, lastToken }
    job.payload = peers === 'baton' ? wrapKv(envelope, kv) : kv
    const lane = this.#lanes.get(job.decodeRank)
    const isOver =
      job.payload.length > maxKvTransferBytes || this.heldBytes + job.payload.length > kvBytesMax
    if (!lane || isOver || !this.#isOpen(caller)) {
      this.#answer(job, 0)
      return
    }
    lane.push(job)
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
