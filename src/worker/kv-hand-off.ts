/**
 * The worker's part of the KV hand-over.
 *
 * Prefill: the blocks computed by the engine are pinned and offered; from then on the `KvServer` owns the pin.
 * Decode: only missing blocks are pulled into the engine's store, which validates each of them before the engine can
 * see it; all are pinned until the engine has produced its first token.
 *
 * Sockets and leases belong to `KvServer`, storage to the engine.
 */
import { BatonError } from '../base/index.ts'
import type { Clock } from '../base/index.ts'
import { checkedBlocks, kvBlocksError, ownIndexes, ownPinnedBlocks } from '../engine/index.ts'
import type { KvBlockSource, KvPin } from '../engine/index.ts'
import type { GenerateRequest, KvOffer, KvTransfer } from '../request/index.ts'
import type { KvClient, KvHold, KvServer } from '../wire/index.ts'
import { GrowingHold } from './growing-hold.ts'
import { traceOf } from './worker-event.ts'
import type { WorkerObserver } from './worker-event.ts'

/** What a decode worker does if the offered KV cannot be fetched: end the request, or compute the prompt itself. */
export type KvFailurePolicy = 'fail' | 'recompute'

interface KvHandOffOptions {
  readonly clock: Clock
  readonly observe: WorkerObserver
  /** Called when needed, because an engine knows its KV layout only after its start. */
  readonly source: () => KvBlockSource | undefined
  readonly leaseMs: number
  readonly pullTimeoutMs: number
  readonly onFailure: KvFailurePolicy
}

/** Fetched KV, or the request that continues without it. */
export interface TakenKv {
  readonly request: GenerateRequest
  readonly transfer: KvTransfer
  /** Idempotent: call when the engine has loaded the blocks, or will not. */
  release(): void
}

/** An offer whose last blocks are still being computed. */
export interface OfferAhead {
  readonly offer: KvOffer
  readonly hold: GrowingHold
}

/** A worker's ends of a KV transport: a prefill worker offers, a decode worker pulls. */
export interface KvEnds {
  readonly server?: KvServer
  readonly client?: KvClient
}

export class KvHandOff {
  readonly #options: KvHandOffOptions
  #ends: KvEnds = {}

  constructor(options: KvHandOffOptions) {
    this.#options = options
  }

  connect(ends: KvEnds): void {
    this.#ends = ends
  }

  /** Number of offers not pulled yet; a prefill worker waits for these before it exits. */
  get openOffers(): number {
    return this.#ends.server?.offerCount ?? 0
  }

  /** Null if there are no blocks that could be handed over. */
  offer(request: GenerateRequest): KvOffer | null {
    const { server } = this.#ends
    const source = this.#options.source()
    if (source === undefined || server === undefined) return null
    const pin = this.#pin(source, request)
    if (pin.tokenCount > 0) return this.#offer(request, server, source, pin)
    pin.release()
    return null
  }

  /** Offers the KV before the prompt is completely computed. Null: it cannot be offered until then. */
  offerAhead(request: GenerateRequest): OfferAhead | null {
    const { server } = this.#ends
    const source = this.#options.source()
    const { tokenIds, routing } = request
    const tokenCount = tokenIds.length - 1
    if (server?.grown === undefined || tokenCount < 1) return null
    if (source?.keysOf === undefined || source.bytesPerToken === undefined) return null
    const blockKeys = source.keysOf(tokenIds, tokenCount, routing.cacheSalt, routing.loraName)
    const kvBytes = tokenCount * source.bytesPerToken
    const given = { tokenCount, blockKeys, kvBytes }
    const whole = ownPinnedBlocks(given, tokenIds.length, source.blockTokens)
    if (typeof whole === 'string') throw kvBlocksError(`keysOf: ${whole}`)
    const hold = new GrowingHold(whole, this.#pin(source, request))
    return { offer: this.#offer(request, server, source, hold), hold }
  }

  /**
   * The prompt is computed. Null: some blocks are no longer held while a puller waits for them; the offer is
   * withdrawn.
   */
  complete(request: GenerateRequest, { offer, hold }: OfferAhead): KvOffer | null {
    const source = this.#options.source()
    // A decode worker that already had the prompt has acknowledged the offer.
    if (hold.isReleased) return offer
    if (source === undefined) return null
    hold.grow(this.#pin(source, request))
    if (hold.isWhole) {
      this.#ends.server?.grown?.(offer.offerId)
      return offer
    }
    this.withdraw(offer.offerId)
    return null
  }

  /**
   * Pins the blocks of a prompt that the engine holds. `release` never throws: it is called at the end of a request,
   * an offer or a connection, where an exception would leave places taken or break the streams of others.
   */
  #pin(source: KvBlockSource, { tokenIds, routing }: GenerateRequest): KvPin {
    const pin = source.pin(tokenIds, routing.cacheSalt, routing.loraName)
    const release = (isStillRead?: boolean): void => {
      try {
        pin.release(isStillRead)
      } catch (thrown) {
        this.#report(BatonError.from(thrown, 'backend.unknown'))
      }
    }
    const own = ownPinnedBlocks(pin, tokenIds.length, source.blockTokens)
    if (typeof own === 'string') {
      release()
      throw kvBlocksError(`pin: ${own}`)
    }
    return { ...own, release }
  }

  #report(error: BatonError): void {
    this.#options.observe({ kind: 'engine-fault', error: error.toValue() })
  }

  #offer(request: GenerateRequest, server: KvServer, source: KvBlockSource, pin: KvHold): KvOffer {
    const { clock, observe, leaseMs } = this.#options
    const offeredMs = clock.nowMs()
    const trace = traceOf(request)
    let offerId = ''
    const blocks = checkedBlocks(source, (error) => this.#report(error))
    const offer = server.offer(pin, blocks, {
      leaseMs,
      onReleased: (reason) =>
        observe({
          kind: 'kv-released',
          offerId,
          reason,
          kvBytes: pin.kvBytes,
          heldMs: clock.nowMs() - offeredMs,
          ...trace,
        }),
    })
    offerId = offer.offerId
    observe({
      kind: 'kv-offered',
      requestId: request.requestId,
      offerId,
      kvBytes: offer.kvBytes,
    })
    return offer
  }

  withdraw(offerId: string): void {
    this.#ends.server?.withdraw(offerId)
  }

  frontendLost(offerId: string): void {
    this.#ends.server?.frontendLost?.(offerId)
  }

  /** Fetches the offered KV. Rejects with a typed error, unless the policy is to recompute the prompt. */
  async takeOver(request: GenerateRequest, signal: AbortSignal): Promise<TakenKv | null> {
    const offer = request.prefillResult?.kvOffer
    if (offer === undefined) return null
    const startMs = this.#options.clock.nowMs()
    try {
      const { pin, transfer } = await this.#pull(request, offer, signal)
      return { request, transfer, release: () => pin.release() }
    } catch (thrown) {
      const error = BatonError.from(thrown, 'kv.transfer_failed')
      if (signal.aborted || this.#options.onFailure === 'fail') throw error
      const { requestId } = request
      this.#options.observe({
        kind: 'kv-recomputed',
        requestId,
        offerId: offer.offerId,
        error: error.toValue(),
      })
      const elapsedMs = this.#options.clock.nowMs() - startMs
      const transfer = { ...NOTHING_TRANSFERRED, elapsedMs }
      return { request: withoutPrefillResult(request), transfer, release: () => undefined }
    }
  }

  async #pull(request: GenerateRequest, offer: KvOffer, signal: AbortSignal): Promise<Pulled> {
    const { clock, observe } = this.#options
    const { client } = this.#ends
    const source = this.#options.source()
    if (source === undefined || client === undefined) {
      throw new BatonError('kv.transfer_failed', 'this worker does not support receiving KV blocks')
    }
    const startMs = clock.nowMs()
    // Blocks that are already held stay pinned while the others are transferred.
    const before = this.#pin(source, request)
    try {
      checkOffer(offer, source, request)
      const missing = ownIndexes(source.missing(offer.blockKeys), offer.blockKeys.length / 2)
      const stats = await this.#withinDeadline(signal, (limited) =>
        client.pull(
          offer,
          missing,
          {
            put: (index, bytes) => putBlock(source, offer, index, bytes),
            ...(source.allocate && { allocate: source.allocate.bind(source) }),
          },
          limited,
        ),
      )
      const pin = this.#pin(source, request)
      if (pin.tokenCount < offer.tokenCount) {
        pin.release()
        throw new BatonError(
          'kv.transfer_failed',
          `of ${offer.tokenCount} offered tokens only ${pin.tokenCount} are held after the pull`,
          { data: { stage: 'kv_pull', offered: offer.tokenCount, held: pin.tokenCount } },
        )
      }
      const blocksPulled = missing.length
      const blocksHeld = offer.blockKeys.length / 2 - blocksPulled
      const elapsedMs = clock.nowMs() - startMs
      const { bytes } = stats
      const { offerId } = offer
      const { requestId } = request
      const what = { blocksPulled, blocksHeld, elapsedMs }
      observe({
        kind: 'kv-taken',
        requestId,
        offerId,
        ...what,
        bytesPulled: bytes,
        ...traceOf(request),
      })
      return { pin, transfer: { ...what, bytes, recomputed: false } }
    } catch (thrown) {
      client.abandon(offer)
      throw thrown
    } finally {
      before.release()
    }
  }

  async #withinDeadline<T>(
    signal: AbortSignal,
    work: (limited: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { clock, pullTimeoutMs } = this.#options
    const limited = new AbortController()
    const cancel = (): void => limited.abort()
    let isLate = false
    const timer = clock.after(pullTimeoutMs, () => {
      isLate = true
      limited.abort()
    })
    signal.addEventListener('abort', cancel, { once: true })
    try {
      signal.throwIfAborted()
      return await work(limited.signal)
    } catch (thrown) {
      if (!isLate) throw thrown
      throw new BatonError(
        'kv.transfer_failed',
        `the KV blocks did not arrive within ${pullTimeoutMs} ms`,
        { data: { stage: 'kv_pull', timeoutMs: pullTimeoutMs }, cause: thrown },
      )
    } finally {
      timer.cancel()
      signal.removeEventListener('abort', cancel)
    }
  }
}

interface Pulled {
  readonly pin: KvPin
  readonly transfer: KvTransfer
}

const NOTHING_TRANSFERRED = { bytes: 0, blocksPulled: 0, blocksHeld: 0, recomputed: true }

/** Validates an offer; nothing is pulled for an invalid or foreign one. */
function checkOffer(offer: KvOffer, source: KvBlockSource, request: GenerateRequest): void {
  const promptTokens = request.tokenIds.length
  const { fingerprint, blockTokens, tokenCount, blockKeys } = offer
  const refuse = (message: string, data: Record<string, string | number>): never => {
    throw new BatonError('kv.block_refused', message, { data })
  }
  if (fingerprint !== source.fingerprint) {
    refuse('the offered KV has another model or layout', {
      offered: fingerprint,
      expected: source.fingerprint,
    })
  }
  if (blockTokens !== source.blockTokens) {
    refuse('the offered KV has another block size', {
      offered: blockTokens,
      expected: source.blockTokens,
    })
  }
  const isWhole = Number.isSafeInteger(tokenCount) && tokenCount > 0 && tokenCount < promptTokens
  if (!isWhole || blockKeys.length !== 2 * Math.ceil(tokenCount / blockTokens)) {
    refuse('the offered KV does not fit the prompt', {
      tokenCount,
      promptTokens,
      blockCount: blockKeys.length / 2,
    })
  }
  const { cacheSalt, loraName } = request.routing
  const expected = source.keysOf?.(request.tokenIds, tokenCount, cacheSalt, loraName)
  if (expected !== undefined && !blockKeys.every((half, i) => half === expected[i])) {
    refuse('the offered block keys are not those of this prompt', { tokenCount })
  }
}

function putBlock(
  source: KvBlockSource,
  offer: KvOffer,
  index: number,
  bytes: Uint8Array,
): boolean {
  const { blockKeys, blockTokens, tokenCount } = offer
  const tokens = Math.min(blockTokens, tokenCount - index * blockTokens)
  const low = blockKeys[2 * index]
  const high = blockKeys[2 * index + 1]
  if (low === undefined || high === undefined) {
    throw new BatonError('kv.block_refused', 'received a KV block that was not offered', {
      data: { index },
    })
  }
  return source.put(low, high, tokens, bytes)
}

function withoutPrefillResult(request: GenerateRequest): GenerateRequest {
  const { prefillResult: _, ...rest } = request
  return rest
}
