/**
 * The decode role of the dialect `boostr`, without sockets.
 *
 * 32 length → 32 payload → 33 at once; 34 → steps, a 35 each → 35 with −1 (and 36 among Baton peers)
 *
 * KV is paired with its request by `held-kv.ts`. A payload above a limit is refused when it is announced,
 * and dropped as it arrives, so that the next one is handled correctly. `step` generates one token for every active
 * sequence; the driver calls it while there is work.
 */
import type { Clock } from '../../base/index.ts'
import { protocolError } from '../../wire/index.ts'
import { TAG } from '../../wire/index.ts'
import { KV_BYTES_MAX } from './boostr-link.ts'
import type { BoostrLink, BoostrNode, BoostrPeers } from './boostr-link.ts'
import { TOKEN_END, decodeBoostr, decodeKvCacheHeader, encodeBoostr } from './boostr-message.ts'
import type { BoostrFrame, BoostrMessage } from './boostr-message.ts'
import { HeldKv } from './held-kv.ts'
import { checkedStep, watchRejection } from './module-values.ts'
import type { CheckedStep } from './module-values.ts'

/**
 * Generates one token; `TOKEN_EOS` or −1 means that the sequence has ended. The KV may be changed in place or returned
 * anew.
 */
export type DecodeStepFunction = (
  kv: Uint8Array,
  lastToken: bigint,
  position: number,
) => { readonly tokenId: bigint; readonly kv: Uint8Array }

export interface BoostrDecodeOptions {
  readonly link: BoostrLink
  readonly clock: Clock
  readonly decodeStep: DecodeStepFunction
  readonly maxKvTransferBytes: number
  /** Most bytes of KV that arrive, wait or are in use; KV above that is refused. Default 4 GiB. */
  readonly kvBytesMax?: number
  readonly peers: BoostrPeers
  /** KV that no request claims is dropped after this time. */
  readonly kvWaitMs: number
  /** Called for a step that threw, or returned something else than a step, to be logged. */
  readonly onFault?: (thrown: unknown) => void
  /** Called when `step` has work. */
  readonly onWork?: () => void
}

interface Sequence {
  readonly routerRank: number
  readonly requestId: bigint
  kv: Uint8Array
  lastToken: bigint
  position: number
  left: number
}

export class BoostrDecodeWorker implements BoostrNode {
  readonly #options: BoostrDecodeOptions
  /** The announced payload by rank. */
  readonly #announced = new Map<number, { readonly length: number; readonly isOver: boolean }>()
  readonly #held: HeldKv
  #sequences: Sequence[] = []
  /** Ranks that have sent a request. */
  readonly #routers = new Set<number>()
  #refusedCount = 0
  #failedCount = 0

  constructor(options: BoostrDecodeOptions) {
    this.#options = options
    this.#held = new HeldKv(options.clock, options.kvWaitMs)
  }

  /** Sequences and KV that wait or run here. */
  get load(): number {
    return this.#sequences.length + this.#held.count
  }

  /** KV that is announced, waits for its request, or belongs to a sequence. */
  get heldBytes(): number {
    let bytes = this.#held.bytes
    for (const { length, isOver } of this.#announced.values()) if (!isOver) bytes += length
    for (const { kv } of this.#sequences) bytes += kv.length
    return bytes
  }

  get hasWork(): boolean {
    return this.#sequences.length > 0
  }

  /** Number of requests without KV of their own. */
  get refusedCount(): number {
    return this.#refusedCount
  }

  /** Number of sequences whose step failed. */
  get failedCount(): number {
    return this.#failedCount
  }

  receive(fromRank: number, frame: BoostrFrame): void {
    if (frame.tag === TAG.KV_CACHE) {
      this.#onKv(fromRank, frame.payload)
      return
    }
    const message = decodeBoostr(frame.tag, frame.payload)
    if (message.kind === 'request-cancel') {
      this.#cancel(message.routerRank, message.requestId)
      return
    }
    if (message.kind !== 'decode-request') {
      throw protocolError('message.unexpected', `a decode worker must not receive ${message.kind}`)
    }
    this.#onRequest(fromRank, message.requestId, message.maxNewTokens)
  }

  peerGone(rank: number): void {
    this.#announced.delete(rank)
    this.#sequences = this.#sequences.filter((sequence) => sequence.routerRank !== rank)
    this.#held.dropOfRouter(rank)
    // Original peers have one router, and what it has not claimed by now is claimed by nobody.
    if (this.#options.peers === 'boostr' && this.#routers.delete(rank)) this.#held.dropBare()
  }

  /** Above a limit: nothing is kept. */
  beginKv(fromRank: number, length: number): boolean {
    const announced = this.#announced.get(fromRank)
    if (!announced) {
      if (length === KV_HEADER_BYTES) return true
      throw protocolError(
        'message.unexpected',
        `KV of ${length} bytes arrived without an announcement`,
      )
    }
    if (length !== announced.length) throw wrongLength(length, announced.length)
    if (announced.isOver) this.#announced.delete(fromRank)
    return !announced.isOver
  }

  /** KV that waits for its request is not work, so its end is not reported. */
  close(): void {
    this.#held.clear()
    this.#sequences = []
  }

  /** Generates one token for every sequence. */
  step(): void {
    const live: Sequence[] = []
    for (const sequence of this.#sequences) if (this.#stepOne(sequence)) live.push(sequence)
    this.#sequences = live
  }

  #onKv(fromRank: number, payload: Uint8Array): void {
    const announced = this.#announced.get(fromRank)
    if (!announced) {
      const length = decodeKvCacheHeader(payload)
      const { maxKvTransferBytes, kvBytesMax = KV_BYTES_MAX } = this.#options
      const isOver = length > maxKvTransferBytes || this.heldBytes + length > kvBytesMax
      this.#announced.set(fromRank, { length, isOver })
      if (isOver) this.#refuseKv(fromRank)
      return
    }
    this.#announced.delete(fromRank)
    if (payload.length !== announced.length) {
      throw wrongLength(payload.length, announced.length)
    }
    if (announced.isOver) return
    this.#held.put(payload)
    this.#options.link.send(fromRank, encodeBoostr({ kind: 'kv-cache-ack', isRefused: false }))
  }

  /** An original peer waits for nothing but an acknowledgement, so it is told by the loss of the connection. */
  #refuseKv(fromRank: number): void {
    const { peers, link } = this.#options
    if (peers === 'boostr') link.reset(fromRank)
    else link.send(fromRank, encodeBoostr({ kind: 'kv-cache-ack', isRefused: true }))
  }

  #onRequest(routerRank: number, requestId: bigint, maxNewTokens: number): void {
    this.#routers.add(routerRank)
    const held = this.#held.claim(routerRank, requestId, this.#announced.size > 0)
    if (!held) {
      this.#refusedCount += 1
      // The dialect has no message for this. A router of original peers sends nothing else until its deadline, so it
      // is told by the loss of the connection.
      if (this.#options.peers === 'boostr') this.#options.link.reset(routerRank)
      return
    }
    const { kv, envelope, startPosition } = held
    const lastToken = envelope?.lastToken ?? 0n
    const sequence = { routerRank, requestId, kv, lastToken, position: startPosition }
    this.#sequences.push({ ...sequence, left: maxNewTokens })
    this.#options.onWork?.()
  }

  /** From its router, or from the prefill worker that has sent its KV. */
  #cancel(routerRank: number, requestId: bigint): void {
    this.#held.drop(routerRank, requestId)
    this.#sequences = this.#sequences.filter(
      (sequence) => sequence.routerRank !== routerRank || sequence.requestId !== requestId,
    )
  }

  /** False when the sequence has ended. */
  #stepOne(sequence: Sequence): boolean {
    const { requestId } = sequence
    if (sequence.left > 0) {
      const stepped = this.#decode(sequence)
      if (stepped === 'failed') {
        this.#tellFailed(sequence)
        return false
      }
      sequence.left -= 1
      if (stepped !== null) {
        const { tokenId, kv } = stepped
        sequence.kv = kv
        sequence.lastToken = tokenId
        sequence.position += 1
        this.#send(sequence, { kind: 'decode-token', requestId, tokenId })
        if (sequence.left > 0) return true
      }
    }
    this.#send(sequence, { kind: 'decode-token', requestId, tokenId: TOKEN_END })
    // The original router would read DECODE_DONE as the first message of the next call.
    if (this.#options.peers === 'baton') this.#send(sequence, { kind: 'decode-done', requestId })
    return false
  }

  /** Null: the end. 'failed': the step failed, and only this sequence with it. */
  #decode({ kv, lastToken, position }: Sequence): CheckedStep | null | 'failed' {
    const { decodeStep, kvBytesMax = KV_BYTES_MAX, onFault } = this.#options
    try {
      const returned: unknown = decodeStep(kv, lastToken, position)
      // A promise is a fault already; what it is rejected with is none of its own.
      watchRejection(returned, () => undefined)
      return checkedStep(returned, kvBytesMax)
    } catch (thrown) {
      this.#failedCount += 1
      onFault?.(thrown)
      return 'failed'
    }
  }

  /**
   * An end would make an incomplete answer look complete. Original peers have no message for a failure; they have one
   * request at a time, which would wait for the router's deadline with all that wait behind it.
   */
  #tellFailed(sequence: Sequence): void {
    const { requestId, routerRank } = sequence
    if (this.#options.peers === 'boostr') this.#options.link.reset(routerRank)
    else this.#send(sequence, { kind: 'request-cancel', requestId, routerRank })
  }

  #send(sequence: Sequence, message: BoostrMessage): void {
    this.#options.link.send(sequence.routerRank, encodeBoostr(message))
  }
}

const KV_HEADER_BYTES = 8

function wrongLength(length: number, announced: number): Error {
  const text = `KV of ${length} bytes arrived, ${announced} were announced`
  return protocolError('message.unexpected', text)
}
