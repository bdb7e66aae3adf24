/**
 * One request on one worker, from admission to its single terminal item.
 *
 * Owns the call of `engine.generate`, the processing of its items, cancellation, and the release of everything that
 * the request holds, exactly once however it ends. Admission and the KV hand-over itself are elsewhere.
 *
 * A token costs one await and one call; everything else here happens once per request.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, ErrorCode, InFlight, Timer } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import { embeddingOf, RequestContext, StreamValidator } from '../engine/index.ts'
import { finishChunk, neededFeatures, usageOf } from '../request/index.ts'
import type { Chunk, DisaggregationMode, EngineFeature, GenerateRequest } from '../request/index.ts'
import type { ReplyPort, ServedRequest } from '../wire/index.ts'
import type { KvHandOff, OfferAhead, TakenKv } from './kv-hand-off.ts'
import type { StallWatch } from './stall-watch.ts'
import { traceOf } from './worker-event.ts'
import type { WorkerObserver } from './worker-event.ts'

interface SessionOptions {
  readonly request: GenerateRequest
  readonly reply: ReplyPort
  readonly engine: Engine
  readonly mode: DisaggregationMode
  readonly clock: Clock
  readonly handOff: KvHandOff
  readonly stallWatch: StallWatch
  readonly observe: WorkerObserver
  /** What the engine's config names. */
  readonly features: readonly EngineFeature[]
  /** What the engine's config says about its embeddings; absent: they may have any length. */
  readonly embeddingLength?: number | undefined
  /** Time limit of an orderly stop, in milliseconds; afterwards the reply is ended without the engine. */
  readonly cancelTimeoutMs: number
  /** Called once, when the engine has released the request. */
  readonly onFreed: (session: WorkerSession) => void
}

export class WorkerSession implements ServedRequest, InFlight {
  place = -1
  readonly #options: SessionOptions
  readonly #context: RequestContext
  readonly #startMs: number
  #ended = false
  #aborted = false
  #isDropped = false
  #finished = false
  #isAtEngine = false
  #tokenCount = 0
  #taken: TakenKv | null = null
  #offerId: string | null = null
  /** An offer whose last blocks have not been computed yet. */
  #ahead: OfferAhead | null = null
  #cancelTimer: Timer | null = null
  /** When the engine started the request; until it reports that, when it was called. */
  #atEngineMs: number | null = null
  #firstTokenMs: number | null = null

  constructor(options: SessionOptions) {
    this.#options = options
    this.#startMs = options.clock.nowMs()
    const { clock, request } = options
    this.#context = new RequestContext(
      request.requestId,
      () => this.#onFirstToken(),
      () => {
        this.#atEngineMs = clock.nowMs()
      },
    )
  }

  get requestId(): string {
    return this.#options.request.requestId
  }

  /** Never rejects. Resolves when the engine has released the request. */
  async run(): Promise<void> {
    try {
      await this.#generate()
    } catch (thrown) {
      this.#endWithError(thrown)
    } finally {
      this.#finished = true
      this.#leaveEngineFinally()
      this.#cancelTimer?.cancel()
      this.#taken?.release()
      if (this.#ahead !== null) this.#options.handOff.withdraw(this.#ahead.offer.offerId)
      this.#options.onFreed(this)
    }
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#offerId !== null) this.#options.handOff.withdraw(this.#offerId)
    if (this.#finished || this.#context.isKilled) return
    if (kind === 'kill') {
      this.#context.kill()
      this.#endCancelled()
    } else if (!this.#context.isStopped) {
      this.#context.stop()
      this.#cancelTimer = this.#options.clock.after(this.#options.cancelTimeoutMs, () =>
        this.cancel('kill'),
      )
    }
    this.#abortEngine()
  }

  /** The reader is lost: closes the engine's iterator, which releases everything. `abort` is not called. */
  drop(): void {
    if (this.#offerId !== null) this.#options.handOff.withdraw(this.#offerId)
    if (this.#finished || this.#context.isStopped) return
    this.#isDropped = true
    // Interrupts waits of the engine; its next item, or its end, closes the iterator.
    this.#context.stop()
    this.#endCancelled()
  }

  /** Ends the reply with an error now and asks the engine to stop: for a stalled engine, or a shutdown. */
  fail(code: ErrorCode, message: string): void {
    if (this.#finished) return
    this.#endWithError(new BatonError(code, message))
    this.#context.kill()
    this.#abortEngine()
  }

  async #generate(): Promise<void> {
    const { engine, handOff, mode, reply, stallWatch } = this.#options
    let request = this.#options.request
    if (mode !== 'prefill') refuseMissingFeatures(request, this.#options.features)
    if (mode !== 'prefill' && request.prefillResult?.kvOffer !== undefined) {
      this.#taken = await handOff.takeOver(request, this.#context.signal)
      request = this.#taken?.request ?? request
    }
    if (this.#context.isStopped) return this.#endCancelled()

    this.#enterEngine()
    this.#atEngineMs = this.#options.clock.nowMs()
    if (request.kind === 'embed') return await this.#embed(request)
    const validator = new StreamValidator({ request, context: this.#context })
    for await (const item of engine.generate(request, this.#context)) {
      if (this.#ended) break
      if (!this.#context.isStopped) stallWatch.sign()
      let chunk: Chunk
      try {
        chunk = validator.chunk(item)
      } catch (thrown) {
        // The reply ends now; the engine's iterator is closed afterwards and may take its time.
        this.#endWithError(thrown)
        this.#context.kill()
        return
      }
      if (chunk.finish !== undefined) return this.#endWithChunk(chunk)
      const { tokenIds } = chunk
      if (this.#isMeeting(chunk)) {
        this.#offerAhead(chunk)
        validator.pull()
        continue
      }
      this.#countOutput(chunk)
      if (tokenIds.length === 1 && isBareToken(chunk)) reply.token(tokenIds[0] as number)
      else reply.chunk(chunk)
      if (!reply.isWritable) {
        this.#leaveEngine()
        await reply.drained()
        this.#enterEngine()
      }
      validator.pull()
    }
    if (!this.#ended) validator.end()
  }

  #enterEngine(): void {
    this.#isAtEngine = true
    this.#options.stallWatch.enter()
  }

  #leaveEngine(): void {
    this.#isAtEngine = false
    this.#options.stallWatch.leave()
  }

  /** The end of a stopped request says nothing about the engine: it is what the stop has caused. */
  #leaveEngineFinally(): void {
    if (!this.#isAtEngine) return
    this.#leaveEngine()
    if (!this.#context.isStopped) this.#options.stallWatch.sign()
  }

  /** With text the number of tokens is what the engine reports; until then each chunk counts as one. */
  #countOutput({ tokenIds, text, usage }: Chunk): void {
    const hasText = text !== undefined && text !== ''
    if (tokenIds.length === 0 && !hasText) return
    if (this.#context.isStopped) this.#options.stallWatch.sign()
    if (this.#firstTokenMs === null) this.#reportStart()
    this.#tokenCount = hasText
      ? (usage?.completionTokens ?? this.#tokenCount + 1)
      : this.#tokenCount + tokenIds.length
    if (!this.#context.hasFirstToken) this.#context.notifyFirstToken()
  }

  /** Returns one vector and no tokens; nothing is handed over, not even on a prefill worker. */
  async #embed(request: GenerateRequest): Promise<void> {
    const { engine, embeddingLength } = this.#options
    if (engine.embed === undefined) {
      throw new BatonError(
        'request.unsupported_parameter',
        'the engine of this worker does not make embeddings',
        { data: { param: 'model' } },
      )
    }
    const embedding = embeddingOf(await engine.embed(request, this.#context))
    if (this.#context.isStopped) return this.#endCancelled()
    if (embedding === null) {
      const text = 'the embedding is invalid: expected a list of 1 to 1,048,576 finite numbers'
      throw new BatonError('backend.contract_violation', text)
    }
    // Clients compare it with vectors that they have stored.
    if (embeddingLength !== undefined && embedding.length !== embeddingLength) {
      const text = `the embedding has ${embedding.length} numbers: the engine's config says ${embeddingLength} (embeddingLength)`
      throw new BatonError('backend.contract_violation', text)
    }
    this.#end(finishChunk('stop', { embedding, usage: usageOf(request.tokenIds.length, 0) }))
  }

  #onFirstToken(): void {
    this.#taken?.release()
    if (this.#context.isStopped && !this.#isDropped) this.#abortEngine()
  }

  #abortEngine(): void {
    if (this.#aborted) return
    // A decode engine may be receiving KV: it is aborted once it has produced a token, or not at all.
    if (this.#options.mode === 'decode' && !this.#context.hasFirstToken) return
    this.#aborted = true
    const { engine, observe } = this.#options
    const report = (thrown: unknown): void => {
      const error = BatonError.from(thrown, 'backend.unknown').toValue()
      observe({ kind: 'engine-abort-failed', requestId: this.requestId, error })
    }
    try {
      Promise.resolve(engine.abort?.(this.requestId)).catch(report)
    } catch (thrown) {
      report(thrown)
    }
  }

  /** Reports the times at the first token. */
  #reportStart(): void {
    const { clock, observe, reply, request } = this.#options
    const nowMs = clock.nowMs()
    this.#firstTokenMs = nowMs
    const startedMs = this.#atEngineMs ?? nowMs
    const transfer = this.#taken?.transfer
    const queuedMs = Math.max(0, startedMs - this.#startMs - (transfer?.elapsedMs ?? 0))
    const computeMs = nowMs - startedMs
    reply.started({ queuedMs, computeMs, ...(transfer === undefined ? {} : { transfer }) })
    observe({
      kind: 'request-started',
      requestId: this.requestId,
      queuedMs,
      computeMs,
      ...traceOf(request),
    })
  }

  #endWithChunk(chunk: Chunk): void {
    this.#countOutput(chunk)
    this.#tokenCount = chunk.usage?.completionTokens ?? this.#tokenCount
    const isPrefillDone =
      this.#options.mode === 'prefill' &&
      chunk.finish !== 'cancelled' &&
      this.#options.request.isProbe !== true
    // The prompt may have been computed without producing a token.
    if (isPrefillDone && this.#firstTokenMs === null) this.#reportStart()
    this.#end(isPrefillDone ? this.#withOffer(chunk) : chunk)
  }

  /** The engine will have stored all blocks of the prompt when it ends. */
  #isMeeting({ prefillResult }: Chunk): boolean {
    if (prefillResult?.meetsDecode !== true || this.#options.mode !== 'prefill') return false
    return prefillResult.engineParams === undefined
  }

  /** Offers the KV so that decode can start pulling while the last part of the prompt is computed. */
  #offerAhead(chunk: Chunk): void {
    const { handOff, reply, request } = this.#options
    if (this.#ahead !== null) return
    this.#ahead = handOff.offerAhead(request)
    if (this.#ahead === null) return
    const { offer: kvOffer } = this.#ahead
    this.#offerId = kvOffer.offerId
    reply.chunk({ ...chunk, prefillResult: { ...chunk.prefillResult, kvOffer } })
  }

  /** The engine's own parameters are passed on unchanged; Baton's offer is added. */
  #withOffer(chunk: Chunk): Chunk {
    const { handOff, request } = this.#options
    const ahead = this.#ahead
    this.#ahead = null
    const kvOffer = ahead === null ? handOff.offer(request) : handOff.complete(request, ahead)
    const cachedTokens = chunk.prefillResult?.cachedTokens ?? chunk.usage?.cachedTokens
    this.#offerId = kvOffer?.offerId ?? null
    return {
      ...chunk,
      prefillResult: {
        ...chunk.prefillResult,
        ...(kvOffer === null ? {} : { kvOffer }),
        ...(cachedTokens === undefined ? {} : { cachedTokens }),
      },
    }
  }

  #endCancelled(): void {
    const promptTokens = this.#options.request.tokenIds.length
    this.#end(finishChunk('cancelled', { usage: usageOf(promptTokens, this.#tokenCount) }))
  }

  #end(chunk: Chunk): void {
    if (this.#ended) return
    this.#ended = true
    this.#options.reply.chunk(chunk)
    this.#report(chunk.finish === undefined ? {} : { finish: chunk.finish })
  }

  #endWithError(thrown: unknown): void {
    if (this.#ended) return
    if (this.#context.isStopped) return this.#endCancelled()
    this.#ended = true
    const error = StreamValidator.unstopped(thrown)
    this.#options.reply.error(error)
    this.#report({ error: error.toValue() })
  }

  #report(outcome: {
    finish?: NonNullable<Chunk['finish']>
    error?: ReturnType<BatonError['toValue']>
  }): void {
    const { clock, observe, request } = this.#options
    const { tokenIds } = request
    const transfer = this.#taken?.transfer
    const endedMs = clock.nowMs()
    observe({
      kind: 'request-ended',
      requestId: this.requestId,
      ...outcome,
      promptTokens: tokenIds.length,
      outputTokens: this.#tokenCount,
      elapsedMs: endedMs - this.#startMs,
      ...traceOf(request),
      times: {
        admittedMs: this.#startMs,
        atEngineMs: this.#atEngineMs,
        firstTokenMs: this.#firstTokenMs,
        endedMs,
      },
      ...(transfer === undefined ? {} : { transfer }),
    })
  }
}

/**
 * The frontend refuses such a request, but this worker may have joined after that, or continues a request of a worker
 * whose engine has more features. Ignoring a constraint in the middle of an output would be worse than an error.
 */
function refuseMissingFeatures(request: GenerateRequest, features: readonly EngineFeature[]): void {
  for (const [param, feature] of neededFeatures(request)) {
    if (features.includes(feature)) continue
    throw new BatonError(
      'request.unsupported_parameter',
      `\`${param}\` needs "${feature}", which the engine of this worker does not have`,
      { data: { param } },
    )
  }
}

function isBareToken(chunk: Chunk): boolean {
  return (
    chunk.text === undefined &&
    chunk.logprobs === undefined &&
    chunk.promptLogprobs === undefined &&
    chunk.stopReason === undefined &&
    chunk.usage === undefined &&
    chunk.prefillResult === undefined &&
    chunk.engineData === undefined
  )
}
