/**
 * Decides which runs the engine's thread has and which wait, and applies the thread's reports.
 *
 * Runs are given to the thread in order of arrival, up to its number of slots. Cancelling a run is reported to the
 * thread, which keeps it until it reports `ended`; only then its slot and memory are free.
 */
import { BatonError } from '../base/index.ts'
import type { LoadReport } from '../kv/index.ts'
import type { Chunk, DisaggregationMode } from '../request/index.ts'
import type { CachedPrompt, PrefixCache } from './prefix-cache.ts'
import type { SequenceRun } from './sequence-run.ts'
import type { RunEnd, StepMessage, ToThread } from './thread/thread-messages.ts'

interface RunQueueOptions {
  readonly cache: PrefixCache | undefined
  readonly mode: DisaggregationMode
  readonly sequences: number
  readonly queueMax: number
  readonly blockTokens: number
  readonly totalBlocks: number
  readonly send: (message: ToThread) => void
  /** The message that gives a run to the thread. */
  readonly describe: (run: SequenceRun, cached: CachedPrompt | undefined) => ToThread
  /** Called after every step. */
  readonly onStep: (load: LoadReport) => void
}

interface RunningRun {
  readonly run: SequenceRun
  readonly cached: CachedPrompt | undefined
  isCancelled: boolean
}

export class RunQueue {
  readonly #options: RunQueueOptions
  readonly #waiting: SequenceRun[] = []
  readonly #running = new Map<number, RunningRun>()
  #closed: BatonError | undefined
  #isFilling = false
  #onIdle: (() => void)[] = []

  constructor(options: RunQueueOptions) {
    this.#options = options
  }

  get isIdle(): boolean {
    return this.#waiting.length === 0 && this.#running.size === 0
  }

  /** Throws `capacity.worker_overloaded` when the queue is full. */
  submit(run: SequenceRun): void {
    if (this.#closed !== undefined) throw this.#closed
    if (this.#waiting.length >= this.#options.queueMax) {
      throw new BatonError(
        'capacity.worker_overloaded',
        `the engine's queue is full: ${this.#options.queueMax} requests wait`,
      )
    }
    this.#waiting.push(run)
    this.#options.cache?.holdOffered(run)
    this.#fillSoon()
  }

  /** Cancels the run. */
  stop(run: SequenceRun): void {
    const running = this.#running.get(run.id)
    if (running !== undefined) {
      if (!running.isCancelled) this.#options.send({ kind: 'cancel', id: run.id })
      running.isCancelled = true
      return
    }
    const at = this.#waiting.indexOf(run)
    if (at === -1) return
    this.#waiting.splice(at, 1)
    if (run.state !== 'ended') run.end('cancelled')
    this.#told()
  }

  /** Resolves when nothing is in flight. */
  async drained(): Promise<void> {
    if (this.isIdle) return
    await new Promise<void>((resolve) => {
      this.#onIdle.push(resolve)
    })
  }

  /** Ends every run with this error; nothing is accepted any more. */
  close(error: BatonError): void {
    this.#closed ??= error
    for (const run of this.#waiting.splice(0)) run.fail(error)
    for (const { run } of this.#running.values()) run.fail(error)
  }

  /** The thread is gone: everything it had is free. */
  forget(): void {
    for (const { cached } of this.#running.values()) cached?.pin.release()
    this.#running.clear()
    this.#told()
  }

  take(message: StepMessage): void {
    const { progress = [], loaded = [], ahead = [], kept = [], tokens = [] } = message
    for (let i = 0; i < loaded.length; i += 2) this.#loaded(loaded[i] ?? 0, loaded[i + 1] ?? 0)
    for (let i = 0; i < progress.length; i += 2) {
      const run = this.#running.get(progress[i] ?? 0)?.run
      if (run !== undefined) run.computedTokens = progress[i + 1] ?? 0
    }
    for (let i = 0; i < ahead.length; i += 2) this.#goAhead(ahead[i] ?? 0, ahead[i + 1] ?? 0)
    for (const id of kept) {
      const running = this.#running.get(id)
      if (running?.cached !== undefined) this.#options.cache?.keep(running.cached)
    }
    for (const { id, logprobs } of message.promptLogprobs ?? []) {
      this.#running.get(id)?.run.pushPromptLogprobs(logprobs)
    }
    this.#pushAll(tokens)
    for (const { id, token, logprobs } of message.scored ?? [])
      this.#push(id, { tokenIds: [token], logprobs: [logprobs] })
    for (const end of message.ends ?? []) this.#end(end)
    for (const { id, error } of message.failures ?? []) {
      this.#running.get(id)?.run.fail(BatonError.fromValue(error))
      this.#free(id)
    }
    this.#fill()
    this.#told()
  }

  /** The result of a step with only tokens: pairs of run and token. */
  takeTokens(tokens: readonly number[]): void {
    this.#pushAll(tokens)
    this.#told()
  }

  #pushAll(tokens: readonly number[]): void {
    for (let i = 0; i < tokens.length; i += 2)
      this.#push(tokens[i] ?? 0, { tokenIds: [tokens[i + 1] ?? 0] })
  }

  #loaded(id: number, tokens: number): void {
    const running = this.#running.get(id)
    if (running === undefined) return
    running.run.computedTokens = tokens
    running.run.cachedTokens = tokens
    running.cached?.pin.release()
    running.run.hold(undefined)
  }

  /** The rest of this prompt will be computed soon, so its reader may announce its blocks. */
  #goAhead(id: number, tokens: number): void {
    const running = this.#running.get(id)
    if (running?.cached === undefined) return
    const { run, cached } = running
    this.#options.cache?.keep(cached, tokens)
    this.#options.cache?.holdComputed(run)
    run.push({ tokenIds: [], prefillResult: { cachedTokens: run.cachedTokens, meetsDecode: true } })
  }

  #push(id: number, chunk: Chunk): void {
    const run = this.#running.get(id)?.run
    if (run === undefined) return
    run.context.notifyFirstToken()
    run.push(chunk)
  }

  #end({ id, finish, ...rest }: RunEnd): void {
    const run = this.#running.get(id)?.run
    if (run === undefined) return
    if (rest.tokenIds.length > 0) run.context.notifyFirstToken()
    if (this.#options.mode !== 'prefill' || finish === 'cancelled') run.end(finish, rest)
    else {
      this.#options.cache?.holdComputed(run)
      run.end(finish, { prefillResult: { cachedTokens: run.cachedTokens } })
    }
    this.#free(id)
  }

  #free(id: number): void {
    this.#running.get(id)?.cached?.pin.release()
    this.#running.delete(id)
  }

  /** A caller's submit returns before its run is started. */
  #fillSoon(): void {
    if (this.#isFilling) return
    this.#isFilling = true
    queueMicrotask(() => {
      this.#isFilling = false
      this.#fill()
    })
  }

  #fill(): void {
    while (this.#running.size < this.#options.sequences) {
      const run = this.#waiting.shift()
      if (run === undefined) return
      if (run.state === 'ended') continue
      run.state = 'running'
      run.context.notifyStarted()
      const cached = this.#options.cache?.open(run, run.prefillTokens)
      this.#running.set(run.id, { run, cached, isCancelled: false })
      this.#options.send(this.#options.describe(run, cached))
    }
  }

  #told(): void {
    this.#options.onStep(this.#load())
    if (!this.isIdle) return
    for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  #load(): LoadReport {
    const { blockTokens, totalBlocks } = this.#options
    let activeBlocks = 0
    let prefillTokensInFlight = 0
    let runningRequests = 0
    for (const { run } of this.#running.values()) {
      if (run.state === 'ended') continue
      runningRequests++
      activeBlocks += Math.ceil(run.tokenCount / blockTokens)
      prefillTokensInFlight += Math.max(0, run.prefillTokens - run.computedTokens)
    }
    for (const run of this.#waiting) prefillTokensInFlight += run.prefillTokens
    return {
      dpRank: 0,
      activeBlocks,
      totalBlocks,
      runningRequests,
      queuedRequests: this.#waiting.length,
      prefillTokensInFlight,
    }
  }
}
