/**
 * Reads one stream of the engine as a worker would, but to its end, within a deadline, and with a try for one item
 * beyond the terminal one.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { Chunk, GenerateRequest } from '../../request/index.ts'
import type { EngineChunk } from '../engine-chunk.ts'
import type { RequestContext } from '../generate-context.ts'
import { brokenStreamRule, StreamValidator } from '../validate-stream.ts'
import type { StreamRule } from '../validate-stream.ts'
import type { ConcurrentReads } from './concurrent-reads.ts'
import { within } from './within.ts'

/** How a stream ended: with a terminal chunk, an error, without either, not within the deadline, or with a violation. */
export interface StreamOutcome {
  readonly end: 'finish' | 'error' | 'missing' | 'deadline' | 'broken'
  readonly chunks: readonly Chunk[]
  readonly error?: unknown
  readonly brokenRule?: StreamRule
  /** The iterator was not `done` after the terminal item. */
  readonly notClosed?: boolean
}

interface Reading {
  readonly request: GenerateRequest
  readonly context: RequestContext
  readonly clock: Clock | undefined
  /** For the whole stream: an engine that yields something for ever must not occupy the kit. */
  readonly deadlineMs: number
  /** Of closing a stream that has ended: one that hangs is reported by the check of dropped streams. */
  readonly closeMs: number
  /** Called after each item but the terminal one, with the number of items so far. */
  readonly onItem?: ((count: number) => void) | undefined
  readonly beside?: ConcurrentReads | undefined
}

type Item = { readonly done: true } | { readonly done: false; readonly value: EngineChunk }

/** Limit of a request without `maxTokens`; more than a check requests. */
export const TOKENS_MAX = 10_000

export class StreamReader {
  readonly #iterator: AsyncIterator<EngineChunk>
  readonly #reading: Reading
  readonly #validator: StreamValidator
  readonly #chunks: Chunk[] = []
  readonly #startMs: number

  constructor(iterator: AsyncIterator<EngineChunk>, reading: Reading) {
    const { request, context, clock } = reading
    this.#iterator = iterator
    this.#reading = reading
    this.#validator = new StreamValidator({ request: limited(request), context })
    this.#startMs = clock?.nowMs() ?? 0
  }

  /** To the end; the iterator is closed then. */
  async read(): Promise<StreamOutcome> {
    const outcome = await this.#readItems()
    const { beside, clock } = this.#reading
    if (clock !== undefined) beside?.ended(clock.nowMs())
    const closed = closeIterator(this.#iterator).catch(() => true)
    // One that hangs may not even close.
    if (outcome.end !== 'deadline') await this.#within(closed, this.#reading.closeMs)
    return outcome
  }

  async #readItems(): Promise<StreamOutcome> {
    const chunks = this.#chunks
    const validator = this.#validator
    try {
      for (;;) {
        validator.pull()
        const result = await this.#next()
        if (result === undefined)
          return { end: 'deadline', chunks, ...(validator.hasEnded ? { notClosed: true } : {}) }
        const item = this.#itemOf(result)
        if ('unreadable' in item) return { end: 'error', chunks, error: item.unreadable }
        if (item.done) {
          validator.end()
          return { end: 'finish', chunks }
        }
        chunks.push(validator.chunk(item.value))
        // A stream that has ended cannot be stopped any more.
        if (!validator.hasEnded) this.#reading.onItem?.(chunks.length)
      }
    } catch (error) {
      const brokenRule = brokenStreamRule(error)
      if (brokenRule === null) return await this.#afterError({ end: 'error', chunks, error })
      const end = brokenRule === 'missing-terminal' ? 'missing' : 'broken'
      return { end, chunks, error, brokenRule }
    }
  }

  /** What the iterator has resolved with; undefined: nothing within the deadline. */
  async #next(): Promise<{ readonly result: unknown } | undefined> {
    const left = this.#leftMs
    // Without a pause an engine lets no timer fire.
    if (left < 0) return undefined
    try {
      // Wrapped in a record, because an iterator may resolve with undefined.
      const asked = (async () => ({ result: await this.#iterator.next() }))()
      return await this.#inTime(asked, left)
    } catch (thrown) {
      throw this.#thrown(thrown)
    }
  }

  async #inTime<T>(asked: Promise<T>, leftMs: number): Promise<T | undefined> {
    for (let left = leftMs; ; left = this.#leftMs) {
      const result = await this.#within(asked, left)
      // Meanwhile another stream may have ended.
      if (result !== undefined || this.#validator.hasEnded || this.#leftMs <= 0) return result
    }
  }

  /** After a terminal item the iterator has the whole deadline to be done. */
  get #leftMs(): number {
    const { beside, clock, deadlineMs } = this.#reading
    if (clock === undefined || this.#validator.hasEnded) return deadlineMs
    const fromMs = Math.max(this.#startMs, beside?.lastEndMs ?? this.#startMs)
    return deadlineMs - (clock.nowMs() - fromMs)
  }

  /** A worker does not read on after a result that cannot be read, so nothing that follows is a fault. */
  #itemOf({ result }: { readonly result: unknown }): Item | { readonly unreadable: unknown } {
    try {
      return itemOf(result)
    } catch (thrown) {
      if (this.#validator.hasEnded) throw this.#thrown(thrown)
      return { unreadable: thrown }
    }
  }

  /** An error after the terminal item is an item too many; any other error is passed on. */
  #thrown(thrown: unknown): unknown {
    return this.#validator.hasEnded ? this.#validator.failure(thrown) : thrown
  }

  /** An error is terminal, too: the iterator must be done now. */
  async #afterError(outcome: StreamOutcome): Promise<StreamOutcome> {
    const ended = { done: true } as const
    const asked = (async () => itemOf(await this.#iterator.next()))().catch(() => ended)
    const next = await this.#within(asked)
    if (next === undefined) return { ...outcome, notClosed: true }
    if (next.done) return outcome
    const brokenRule = 'item-after-terminal'
    return { ...outcome, end: 'broken', brokenRule, error: new Error('an item after an error') }
  }

  async #within<T>(
    promise: Promise<T>,
    deadlineMs = this.#reading.deadlineMs,
  ): Promise<T | undefined> {
    return within(this.#reading.clock, deadlineMs, promise)
  }
}

/** Throws a typed error for a value that is not a stream. */
export function iteratorOf(stream: AsyncIterable<EngineChunk>): AsyncIterator<EngineChunk> {
  const isStream = typeof (stream as Partial<typeof stream> | undefined)?.[Symbol.asyncIterator]
  if (isStream === 'function') return stream[Symbol.asyncIterator]()
  throw new BatonError('backend.contract_violation', '`generate` returned no async iterable')
}

/** Resolves with true when the iterator is closed, whatever its `return` returns. */
export async function closeIterator(iterator: AsyncIterator<EngineChunk>): Promise<true> {
  await iterator.return?.()
  return true
}

/** Each field is read once, and the value only of an item that is not the end, as in `for await`. */
function itemOf(result: unknown): Item {
  if (typeof result !== 'object' || result === null)
    return { done: false, value: result as EngineChunk }
  const { done = false } = result as { readonly done?: boolean }
  if (done) return { done: true }
  return { done: false, value: (result as { readonly value: EngineChunk }).value }
}

function limited(request: GenerateRequest): GenerateRequest {
  const { stop } = request
  return stop.maxTokens === undefined
    ? { ...request, stop: { ...stop, maxTokens: TOKENS_MAX } }
    : request
}
