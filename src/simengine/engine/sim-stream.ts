/**
 * The reply of one request: an iterator over available items, with at most one waiting reader.
 *
 * Tokens are a function of their index, so nothing is buffered: the stream knows how many are available and how many
 * were read. It ends once: complete, cancelled, failed or dropped; in each case the sequence is freed.
 */
import { BatonError } from '../../base/index.ts'
import type { InFlight } from '../../base/index.ts'
import { finishChunk, hasStopTexts, tokenChunk, usageOf } from '../../request/index.ts'
import type { Chunk, FinishReason, GenerateRequest, Usage } from '../../request/index.ts'
import type { GenerateContext } from '../../engine/index.ts'
import type { SimFault } from './sim-options.ts'
import type { SimOutput } from './sim-output.ts'
import type { SimOwner } from './sim-rank.ts'
import type { SimSequence } from '../scheduler/sim-sequence.ts'
import type { SimTokens } from './sim-tokens.ts'

/** What the engine provides to a stream. */
export interface SimStreamHost {
  /** Starts the request; throws a BatonError if that is impossible. Called at the first read. */
  open(stream: SimStream): void
  /** Called exactly once after `open`: frees the sequence if it still runs. */
  release(stream: SimStream): void
}

/** Set by `open`. */
interface OpenRequest {
  readonly rankIndex: number
  readonly output: SimOutput
  readonly fault: SimFault | undefined
  readonly isPrefillOnly: boolean
}

type Reader = {
  readonly resolve: (result: IteratorResult<Chunk>) => void
  readonly reject: (error: unknown) => void
}

/** `engineData` of a chunk with the tokens of several steps that were computed ahead. */
export interface SimRunData {
  readonly stepEndsMs: Float64Array
}

const DONE: IteratorResult<Chunk> = { done: true, value: undefined }

export class SimStream implements AsyncIterableIterator<Chunk>, SimOwner, InFlight {
  place = -1
  readonly request: GenerateRequest
  readonly context: GenerateContext
  opened: OpenRequest | null = null
  sequence: SimSequence<SimStream> | null = null
  readonly #host: SimStreamHost
  readonly #tokens: SimTokens
  #state: 'new' | 'open' | 'ended' = 'new'
  #ready = 0
  #taken = 0
  /** End times of steps that were computed ahead; their tokens are sent together. */
  #runMs: Float64Array | null = null
  #isComplete = false
  #failure: BatonError | null = null
  #hasScoredPrompt = false
  #reader: Reader | null = null
  readonly #onAbort = (): void => {
    this.#wakeReader()
  }

  constructor(
    request: GenerateRequest,
    context: GenerateContext,
    host: SimStreamHost,
    tokens: SimTokens,
  ) {
    this.request = request
    this.context = context
    this.#host = host
    this.#tokens = tokens
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<Chunk>> {
    try {
      if (this.#state === 'new') this.#open()
      const chunk = this.#take(false)
      if (chunk !== null) return Promise.resolve({ done: false, value: chunk })
      if (this.#state === 'ended') return Promise.resolve(DONE)
    } catch (error) {
      this.#end()
      return Promise.reject(error)
    }
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject }
    })
  }

  return(): Promise<IteratorResult<Chunk>> {
    this.#end()
    this.#reader?.resolve(DONE)
    this.#reader = null
    return Promise.resolve(DONE)
  }

  admitted(): void {
    this.context.notifyStarted()
  }

  advanceTo(generatedTokens: number, endsMs?: Float64Array): void {
    this.#ready = generatedTokens
    if (endsMs !== undefined) {
      this.#runMs = this.#runMs === null ? endsMs : joined(this.#runMs, endsMs)
    }
    if (this.#reader !== null) this.#wakeReader()
  }

  complete(): void {
    this.#isComplete = true
    if (this.#reader !== null) this.#wakeReader()
  }

  fail(error: BatonError): void {
    this.#failure = error
    this.#host.release(this)
    this.#wakeReader()
  }

  #open(): void {
    this.#state = 'open'
    if (this.context.isStopped) return
    this.#host.open(this)
    this.context.signal.addEventListener('abort', this.#onAbort)
  }

  #wakeReader(): void {
    if (this.context.isStopped) this.#host.release(this)
    const reader = this.#reader
    if (reader === null) return
    try {
      const chunk = this.#take(true)
      if (chunk === null) return
      this.#reader = null
      reader.resolve({ done: false, value: chunk })
    } catch (error) {
      this.#reader = null
      this.#end()
      reader.reject(error)
    }
  }

  /** The next item, or null if there is none yet (or any more). `wasAsked`: the reader was already waiting. */
  #take(wasAsked: boolean): Chunk | null {
    if (this.#state === 'ended') return null
    if (this.context.isStopped) {
      // Tokens of steps that had ended before the stop.
      if (wasAsked && this.#runMs !== null) return this.#takeRun(this.#runMs)
      return this.#terminal('cancelled', [])
    }
    if (this.#failure !== null) throw this.#failure
    const { output, fault, isPrefillOnly } = this.opened!
    if (fault !== undefined && fault.kind !== 'slow' && this.#taken >= fault.atToken) {
      if (fault.kind === 'hang') return null
      if (this.#ready > this.#taken || this.#isComplete)
        throw new BatonError(
          fault.code,
          fault.message ?? 'the simulated engine failed as configured (simFault)',
        )
    }
    if (isPrefillOnly) return this.#isComplete ? this.#terminal('length', []) : null
    const isLast = this.#taken + 1 >= output.outputTokens
    // The last token waits for the end of its sequence, which comes in the same step.
    if (this.#taken >= this.#ready || (isLast && !this.#isComplete)) return null
    if (this.#runMs !== null && !isLast) return this.#takeRun(this.#runMs)
    const tokenId = output.tokenAt(this.#taken)
    if (!isLast) {
      this.#taken += 1
      const chunk = this.#withLogprobs(tokenChunk(tokenId))
      return this.#taken === 1 && hasStopTexts(this.request.stop)
        ? { ...chunk, usage: this.#usage() }
        : chunk
    }
    const isHidden = output.stopTokenId !== undefined && !output.showsStop
    if (!isHidden) this.#taken += 1
    return this.#withLogprobs(this.#terminal(output.finish, isHidden ? [] : [tokenId]))
  }

  /** All available tokens except the last one of the output, with the time of each. */
  #takeRun(endsMs: Float64Array): Chunk {
    const { output, fault } = this.opened!
    const faultAt = fault === undefined || fault.kind === 'slow' ? Infinity : fault.atToken
    const until = Math.min(this.#ready, output.outputTokens - 1, faultAt)
    const isFirst = this.#taken === 0
    const count = Math.max(0, until - this.#taken)
    if (run.length < count) run = new Uint32Array(2 * count)
    const drawn = run.subarray(0, count)
    output.fill(this.#taken, drawn, 0)
    // A new array, because chunks carry plain lists.
    const tokenIds: number[] = []
    for (let i = 0; i < count; i++) tokenIds.push(drawn[i]!)
    this.#taken += count
    this.#runMs = null
    const isTimed = endsMs.length === tokenIds.length
    return this.#withLogprobs({
      tokenIds,
      ...(isTimed ? { engineData: { stepEndsMs: endsMs } satisfies SimRunData } : {}),
      ...(isFirst && hasStopTexts(this.request.stop) ? { usage: this.#usage() } : {}),
    })
  }

  #terminal(finish: FinishReason, tokenIds: readonly number[]): Chunk {
    const { request, opened } = this
    const cachedTokens = this.#cachedTokens()
    const usage = this.#usage()
    this.#end()
    const isStop = finish !== 'cancelled' && opened?.output.stopTokenId !== undefined
    return finishChunk(finish, {
      tokenIds,
      usage,
      ...(isStop ? { stopReason: opened.output.stopTokenId } : {}),
      ...(opened?.isPrefillOnly === true && finish !== 'cancelled'
        ? { prefillResult: { engineParams: { simPrefill: request.requestId }, cachedTokens } }
        : {}),
    })
  }

  #usage(): Usage {
    return usageOf(this.request.tokenIds.length, this.#taken, this.#cachedTokens())
  }

  /** After a hand-over the cached tokens are those of the prefill worker. */
  #cachedTokens(): number {
    const { request, sequence } = this
    if (sequence?.isTransferred === true) return request.prefillResult?.cachedTokens ?? 0
    return sequence?.cachedTokens ?? 0
  }

  #withLogprobs(given: Chunk): Chunk {
    const chunk = this.#hasScoredPrompt ? given : this.#withPromptLogprobs(given)
    const count = this.request.output.logprobs
    if (count === undefined || chunk.tokenIds.length === 0) return chunk
    return { ...chunk, logprobs: chunk.tokenIds.map((id) => this.#tokens.logprobsOf(id, count)) }
  }

  #withPromptLogprobs(chunk: Chunk): Chunk {
    this.#hasScoredPrompt = true
    const { output, tokenIds } = this.request
    const count = output.promptLogprobs
    if (count === undefined) return chunk
    const tokens = Array.from(tokenIds.subarray(1), (id) => this.#tokens.logprobsOf(id, count))
    return { ...chunk, promptLogprobs: { from: 1, tokens } }
  }

  #end(): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    this.context.signal.removeEventListener('abort', this.#onAbort)
    this.#host.release(this)
  }
}

/** Scratch space for one run. */
let run = new Uint32Array(256)

function joined(first: Float64Array, second: Float64Array): Float64Array {
  const both = new Float64Array(first.length + second.length)
  both.set(first)
  both.set(second, first.length)
  return both
}
