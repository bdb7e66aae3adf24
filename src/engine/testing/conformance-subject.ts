/** The engine under test with everything that the checks need: requests, deadlines, and a thorough stream reader. */
import { BatonError, isBatonError, workerIdOf } from '../../base/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../../request/index.ts'
import type { EngineChunk } from '../engine-chunk.ts'
import type { Engine } from '../engine.ts'
import { RequestContext } from '../generate-context.ts'
import { shown } from '../shown.ts'
import { brokenStreamRule, StreamValidator } from '../validate-stream.ts'
import type { StreamRule } from '../validate-stream.ts'
import type { ConformanceOptions } from './conformance-options.ts'
import type { ReportBuilder } from './conformance-report.ts'

export const WORKER_ID = workerIdOf(1)

/** How a stream ended: with a terminal chunk, an error, without either, not within the deadline, or with a violation. */
export interface StreamOutcome {
  readonly end: 'finish' | 'error' | 'missing' | 'deadline' | 'broken'
  readonly chunks: readonly Chunk[]
  readonly error?: unknown
  readonly brokenRule?: StreamRule
  /** The iterator was not `done` after the terminal item. */
  readonly notClosed?: boolean
}

interface ReadOptions {
  readonly context?: RequestContext
  /** Called when the stream is open, before its first item is requested. */
  readonly onOpened?: () => void
  readonly deadlineMs?: number
  /** Called after each item, with the number of items so far. */
  readonly onItem?: (count: number) => void
}

const EXPIRED = Symbol('expired')
/** Stands for an iterator that resolves with undefined. */
const NO_ITEM = { done: false, value: undefined } as unknown as IteratorResult<EngineChunk>

export class ConformanceSubject {
  readonly engine: Engine
  readonly options: ConformanceOptions
  readonly report: ReportBuilder
  config: EngineConfig = { model: '' }
  #requests = 0

  constructor(engine: Engine, options: ConformanceOptions, report: ReportBuilder) {
    this.engine = engine
    this.options = options
    this.report = report
  }

  get deadlineMs(): number {
    return this.options.deadlineMs ?? 30_000
  }

  get cancelDeadlineMs(): number {
    return this.options.cancelDeadlineMs ?? 2000
  }

  get isPrefill(): boolean {
    return this.options.mode === 'prefill'
  }

  /** The longest output that the context allows, at most 10,000 tokens. */
  get longOutput(): number {
    const available = (this.config.contextLength ?? Infinity) - this.#prompt.length - 1
    return Math.max(1, Math.min(10_000, available))
  }

  request(maxTokens: number, change: Partial<GenerateRequest> = {}): GenerateRequest {
    this.#requests += 1
    const request: GenerateRequest = {
      requestId: `conformance-${this.#requests}`,
      model: this.config.model,
      tokenIds: Uint32Array.from(this.#prompt),
      sampling: {},
      stop: { maxTokens, ignoreEos: maxTokens > 8 },
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
    const { clock } = this.options
    if (clock === undefined) return promise
    const expired = new Promise<typeof EXPIRED>((resolve) => {
      const timer = clock.after(deadlineMs, () => resolve(EXPIRED))
      const cancel = (): void => timer.cancel()
      promise.then(cancel, cancel)
    })
    const result = await Promise.race([promise, expired])
    return result === EXPIRED ? undefined : result
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

  /** Reads a stream to its end, and tries one item beyond the terminal one. */
  async read(request: GenerateRequest, options: ReadOptions = {}): Promise<StreamOutcome> {
    const context = options.context ?? new RequestContext(request.requestId)
    const chunks: Chunk[] = []
    let iterator: AsyncIterator<EngineChunk>
    try {
      iterator = iteratorOf(this.engine.generate(request, context))
    } catch (error) {
      return { end: 'error', chunks, error }
    }
    options.onOpened?.()
    const outcome = await this.#readItems(iterator, request, context, chunks, options)
    const closed = outcome.end === 'deadline' ? undefined : iterator.return?.()
    if (closed !== undefined) await this.within(closed.then(() => true)).catch(() => false)
    return outcome
  }

  async #readItems(
    iterator: AsyncIterator<EngineChunk>,
    request: GenerateRequest,
    context: RequestContext,
    chunks: Chunk[],
    { deadlineMs, onItem }: ReadOptions,
  ): Promise<StreamOutcome> {
    const validator = new StreamValidator({ request, context })
    try {
      for (;;) {
        validator.pull()
        const item = await this.#next(iterator, validator, deadlineMs)
        if (item === undefined)
          return { end: 'deadline', chunks, ...(validator.hasEnded ? { notClosed: true } : {}) }
        if (item.done === true) {
          validator.end()
          return { end: 'finish', chunks }
        }
        chunks.push(validator.chunk(item.value))
        onItem?.(chunks.length)
      }
    } catch (error) {
      const brokenRule = brokenStreamRule(error)
      if (brokenRule === null)
        return await this.#afterError(iterator, { end: 'error', chunks, error })
      return {
        end: brokenRule === 'missing-terminal' ? 'missing' : 'broken',
        chunks,
        error,
        brokenRule,
      }
    }
  }

  /** An error is terminal, too: the iterator must be done now. */
  async #afterError(
    iterator: AsyncIterator<EngineChunk>,
    outcome: StreamOutcome,
  ): Promise<StreamOutcome> {
    const ended = { done: true, value: undefined } as const
    const next = await this.within((async () => await iterator.next())().catch(() => ended))
    if (next === undefined) return { ...outcome, notClosed: true }
    if (next.done === true) return outcome
    const brokenRule = 'item-after-terminal'
    return { ...outcome, end: 'broken', brokenRule, error: new Error('an item after an error') }
  }

  async #next(
    iterator: AsyncIterator<EngineChunk>,
    validator: StreamValidator,
    deadlineMs: number | undefined,
  ): Promise<IteratorResult<EngineChunk> | undefined> {
    try {
      // Wrapped in a record, because an iterator may resolve with undefined.
      const asked = (async () => ({ item: await iterator.next() }))()
      const answered = await this.within(asked, deadlineMs)
      return answered === undefined ? undefined : (answered.item ?? NO_ITEM)
    } catch (thrown) {
      // An error after the terminal item is an item too many; any other error is passed on.
      throw validator.hasEnded ? validator.failure(thrown) : thrown
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
    else if (end === 'deadline')
      this.report.fail('response-timeout', `nothing within ${this.deadlineMs} ms`)
    else if (end === 'error') {
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

/** Throws a typed error for a value that is not a stream. */
export function iteratorOf(stream: AsyncIterable<EngineChunk>): AsyncIterator<EngineChunk> {
  const isStream = typeof (stream as Partial<typeof stream> | undefined)?.[Symbol.asyncIterator]
  if (isStream === 'function') return stream[Symbol.asyncIterator]()
  throw new BatonError('backend.contract_violation', '`generate` returned no async iterable')
}

/** For the report of the kit: with the kind of the error. */
export function thrownText(thrown: unknown): string {
  try {
    return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : shown(thrown)
  } catch {
    return `an unreadable ${typeof thrown}`
  }
}
