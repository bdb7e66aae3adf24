/** The engine under test with everything that the checks need: requests, deadlines, streams that are read and judged. */
import { isBatonError, workerIdOf } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import type { EngineConfig, GenerateRequest } from '../../request/index.ts'
import type { EngineChunk } from '../engine-chunk.ts'
import type { Engine } from '../engine.ts'
import { RequestContext } from '../generate-context.ts'
import { Availability } from './availability.ts'
import type { ConcurrentReads } from './concurrent-reads.ts'
import { DEADLINE_MS } from './conformance-options.ts'
import type { ConformanceOptions } from './conformance-options.ts'
import type { ReportBuilder } from './conformance-report.ts'
import { isRefused } from './refusal.ts'
import { iteratorOf, StreamReader, TOKENS_MAX } from './stream-reader.ts'
import type { StreamOutcome } from './stream-reader.ts'
import { thrownText } from './thrown-text.ts'
import { within } from './within.ts'

export const WORKER_ID = workerIdOf(1)
/** Tokens of a plain request. */
export const SHORT_OUTPUT = 8

interface ReadOptions {
  readonly context?: RequestContext
  /** Called when the stream is open, before its first item is requested. */
  readonly onOpened?: () => void
  /** Of the whole stream. */
  readonly deadlineMs?: number
  /** Called after each item but the terminal one, with the number of items so far. */
  readonly onItem?: (count: number) => void
  /** The streams that are read at the same time. */
  readonly beside?: ConcurrentReads
}

export class ConformanceSubject {
  readonly engine: Engine
  readonly options: ConformanceOptions
  readonly report: ReportBuilder
  readonly availability = new Availability()
  config: EngineConfig = { model: '' }
  /** The engine has refused a plain request, but announces embeddings. */
  embedsOnly = false
  #outputMax = TOKENS_MAX
  #requests = 0

  constructor(engine: Engine, options: ConformanceOptions, report: ReportBuilder) {
    this.engine = engine
    this.options = options
    this.report = report
  }

  get deadlineMs(): number {
    return this.options.deadlineMs ?? DEADLINE_MS
  }

  get cancelDeadlineMs(): number {
    return this.options.cancelDeadlineMs ?? 2000
  }

  get isPrefill(): boolean {
    return this.options.mode === 'prefill'
  }

  /** The longest output that the context allows and the engine does not refuse, at most 10,000 tokens. */
  get longOutput(): number {
    return Math.max(1, Math.min(this.#outputMax, this.#room - 1))
  }

  /** For the output. A frontend requests no more. */
  get #room(): number {
    return (this.config.contextLength ?? Infinity) - this.#prompt.length
  }

  request(tokensMax: number, change: Partial<GenerateRequest> = {}): GenerateRequest {
    this.#requests += 1
    const maxTokens = Math.max(1, Math.min(tokensMax, this.#room))
    const request: GenerateRequest = {
      requestId: `conformance-${this.#requests}`,
      model: this.config.model,
      tokenIds: Uint32Array.from(this.#prompt),
      sampling: {},
      stop: { maxTokens, ignoreEos: maxTokens > SHORT_OUTPUT },
      output: {},
      eosTokenIds: [],
      routing: {},
      ...change,
    }
    return this.options.prepareRequest?.(request) ?? request
  }

  get #prompt(): readonly number[] {
    return this.options.promptTokenIds ?? [1, 2, 3]
  }

  /** The value, or undefined if the deadline passed first. */
  async within<T>(promise: Promise<T>, deadlineMs = this.deadlineMs): Promise<T | undefined> {
    return within(this.options.clock, deadlineMs, promise)
  }

  /** Resolves with true, or with the reason why not. */
  async succeeds(action: () => Promise<unknown> | undefined | void): Promise<true | string> {
    try {
      const done = Promise.resolve(action()).then(() => true as const)
      return (await this.within(done)) ?? `nothing within ${this.deadlineMs} ms`
    } catch (error) {
      return thrownText(error)
    }
  }

  /** Waits for an unavailable engine. Null: it may get a request now; otherwise the reason why not. */
  async awayReason(): Promise<BatonError | null> {
    return await this.availability.reached((available) => this.within(available))
  }

  /** Reads a stream to its end. */
  async read(request: GenerateRequest, options: ReadOptions = {}): Promise<StreamOutcome> {
    const { onItem, onOpened, beside, deadlineMs = this.deadlineMs } = options
    const context = options.context ?? new RequestContext(request.requestId)
    const away = await this.awayReason()
    if (away !== null) return { end: 'error', chunks: [], error: away }
    let iterator: AsyncIterator<EngineChunk>
    try {
      iterator = iteratorOf(this.engine.generate(request, context))
    } catch (error) {
      return { end: 'error', chunks: [], error }
    }
    onOpened?.()
    const { clock } = this.options
    const closeMs = this.cancelDeadlineMs
    const reading = { request, context, clock, deadlineMs, closeMs, onItem, beside }
    return new StreamReader(iterator, reading).read()
  }

  /** Reads a stream of the longest output; an engine with a limit of its own gets a shorter request. */
  async readLong(optionsOf: (request: GenerateRequest) => ReadOptions): Promise<StreamOutcome> {
    for (;;) {
      const request = this.request(this.longOutput)
      const outcome = await this.read(request, optionsOf(request))
      if (!isRefused(outcome) || this.longOutput <= SHORT_OUTPUT) return outcome
      this.#outputMax = Math.max(SHORT_OUTPUT, this.longOutput >> 1)
    }
  }

  /** Reports what is wrong with a stream that was not stopped; returns true if nothing is. */
  judgePlain(outcome: StreamOutcome): boolean {
    const { end, chunks, error, brokenRule, notClosed } = outcome
    if (brokenRule === 'missing-terminal' && chunks.length === 0)
      this.report.fail('no-chunks', 'the stream ended without any item')
    else if (brokenRule !== undefined) this.report.fail(brokenRule, thrownText(error))
    else if (notClosed === true)
      this.report.fail('stream-not-closed', 'the iterator waits after the terminal item')
    else if (end === 'deadline') {
      const seen = chunks.length === 0 ? 'nothing' : `${chunks.length} items and no end`
      this.report.fail('response-timeout', `${seen} within ${this.deadlineMs} ms`)
    } else if (end === 'error') {
      if (isBatonError(error))
        this.report.fail(
          chunks.length === 0 ? 'generate-failed' : 'stream-error',
          thrownText(error),
        )
      else this.judgeError(error)
    } else return true
    return false
  }

  judgeError(error: unknown): void {
    if (isBatonError(error)) return
    this.report.fail('error-untyped', `thrown was ${thrownText(error)}`)
  }
}
