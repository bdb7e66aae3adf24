/**
 * The engine's heart: one step after another, as long as there is work.
 *
 * A step admits waiting runs to free slots, computes at most one piece of one prompt, and then one token of every run
 * that decodes; so no prompt, however long, holds the others up for more than a piece. Runs are served in the order
 * of their arrival. Nothing else calls llama.cpp's context.
 */
import { BatonError } from '../../../base/index.ts'
import type { LoadReport } from '../../../kv/index.ts'
import type { DisaggregationMode } from '../../../request/index.ts'
import { applyChoice } from './apply-choice.ts'
import type { NativeSession } from './native-session.ts'
import type { PrefixCache } from './prefix-cache.ts'
import type { SequenceRun } from './sequence-run.ts'

interface StepLoopOptions {
  readonly session: NativeSession
  readonly cache: PrefixCache | undefined
  readonly mode: DisaggregationMode
  readonly sequences: number
  readonly queueMax: number
  readonly blockTokens: number
  readonly totalBlocks: number
  /** All sequences decode in one batch; else one after the other, where the batch would change the numbers. */
  readonly decodesTogether: boolean
  readonly endTokens: ReadonlySet<number>
  /** After every step. */
  readonly onStep: (load: LoadReport) => void
}

export class StepLoop {
  readonly #options: StepLoopOptions
  readonly #waiting: SequenceRun[] = []
  readonly #slots: (SequenceRun | undefined)[]
  #running: Promise<void> | undefined
  #closed: BatonError | undefined

  constructor(options: StepLoopOptions) {
    this.#options = options
    this.#slots = Array.from({ length: options.sequences }, () => undefined)
  }

  get isIdle(): boolean {
    return this.#running === undefined
  }

  /** Throws `capacity.worker_overloaded` when the queue is full. */
  submit(run: SequenceRun): void {
    if (this.#closed !== undefined) throw this.#closed
    if (this.#waiting.length >= this.#options.queueMax) {
      throw new BatonError(
        'capacity.worker_overloaded',
        `the engine's queue is full (${this.#options.queueMax} requests wait)`,
      )
    }
    this.#waiting.push(run)
    this.#options.cache?.holdOffered(run)
    this.#running ??= this.#work()
  }

  /** Resolves when nothing is in flight. */
  async drained(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  /** Ends every run with this error; nothing is admitted any more. */
  async close(error: BatonError): Promise<void> {
    this.#closed = error
    for (const run of [...this.#waiting, ...this.#slots]) run?.fail(error)
    await this.drained()
  }

  async #work(): Promise<void> {
    // A caller's submit returns before the first step.
    await Promise.resolve()
    try {
      while (this.#release()) {
        await this.#step().catch((error: unknown) => this.#failActive(error))
        this.#options.onStep(this.#load())
      }
    } catch (error) {
      // Not even a slot can be freed: this engine is at its end, and says so to everyone.
      this.#closed = BatonError.from(error, 'backend.engine_shutdown')
      for (const run of this.#waiting.splice(0)) run.fail(this.#closed)
      this.#failActive(error)
    } finally {
      this.#running = undefined
    }
    this.#options.onStep(this.#load())
  }

  async #step(): Promise<void> {
    await this.#admit()
    const prefilling = this.#active().find((run) => run.state === 'prefill')
    if (prefilling !== undefined) await this.#prefill(prefilling)
    const decoding = this.#active().filter((run) => run.state === 'decode')
    if (decoding.length === 0) return
    if (this.#options.decodesTogether) await this.#decode(decoding)
    else for (const run of decoding) await this.#decode([run])
  }

  /** Frees what has ended or was stopped; false when no work is left. */
  #release(): boolean {
    for (const run of [...this.#waiting, ...this.#active()]) {
      if (run.isStopped && run.state !== 'ended') run.end('cancelled')
    }
    for (let i = this.#waiting.length - 1; i >= 0; i--) {
      if (this.#waiting[i]?.state === 'ended') this.#waiting.splice(i, 1)
    }
    this.#slots.forEach((run, slot) => {
      if (run?.state !== 'ended') return
      run.chooser.dispose()
      this.#options.session.clearSequence(slot)
      this.#slots[slot] = undefined
    })
    return this.#waiting.length > 0 || this.#slots.some((run) => run !== undefined)
  }

  async #admit(): Promise<void> {
    while (this.#waiting.length > 0) {
      const slot = this.#slots.indexOf(undefined)
      const run = slot === -1 ? undefined : this.#waiting.shift()
      if (run === undefined) return
      if (run.state === 'ended') continue
      this.#slots[slot] = run
      run.slot = slot
      run.state = 'prefill'
      await this.#options.cache?.load(run)
      if (run.computedTokens >= run.prefillTokens) this.#finishPrefill(run)
    }
  }

  async #prefill(run: SequenceRun): Promise<void> {
    const { session, cache } = this.#options
    const from = run.computedTokens
    const count = session.chunkLength(run.prefillTokens - from)
    await session.prefill(run.slot, from, run.tokens.subarray(from, from + count))
    run.computedTokens = from + count
    if (run.computedTokens < run.prefillTokens) return
    await cache?.keep(run)
    this.#finishPrefill(run)
  }

  #finishPrefill(run: SequenceRun): void {
    if (run.state === 'ended') return
    if (this.#options.mode === 'prefill') {
      this.#options.cache?.holdComputed(run)
      run.end('length', { prefillResult: { cachedTokens: run.cachedTokens } })
    } else if (run.maxTokens === 0) run.end('length')
    else run.state = 'decode'
  }

  async #decode(runs: readonly SequenceRun[]): Promise<void> {
    const { session, endTokens } = this.#options
    const logitIndexes = await session.decode(
      runs.map((run) => ({
        sequence: run.slot,
        position: run.computedTokens,
        token: run.tokens[run.computedTokens] ?? 0,
        wantsLogits: run.computedTokens === run.tokenCount - 1,
      })),
    )
    await Promise.all(
      runs.map(async (run, i) => {
        run.computedTokens += 1
        const index = logitIndexes[i] ?? -1
        if (index < 0) return
        const tokens = run.tokens.subarray(0, run.tokenCount)
        const choice = await run.chooser.choose(session.context, index, tokens, run.outputIndex)
        applyChoice(run, choice, endTokens)
      }),
    )
  }

  #failActive(thrown: unknown): void {
    const error = BatonError.from(thrown, 'backend.unknown')
    for (const run of this.#active()) run.fail(error)
  }

  /** By arrival. */
  #active(): SequenceRun[] {
    const runs = this.#slots.filter((run) => run !== undefined)
    return runs.sort((a, b) => a.arrival - b.arrival)
  }

  #load(): LoadReport {
    const { blockTokens, totalBlocks } = this.#options
    let activeBlocks = 0
    let prefillTokensInFlight = 0
    const running = this.#active().filter((run) => run.state !== 'ended')
    for (const run of running) {
      activeBlocks += Math.ceil(run.tokenCount / blockTokens)
      prefillTokensInFlight += Math.max(0, run.prefillTokens - run.computedTokens)
    }
    for (const run of this.#waiting) prefillTokensInFlight += run.prefillTokens
    return {
      dpRank: 0,
      activeBlocks,
      totalBlocks,
      runningRequests: running.length,
      queuedRequests: this.#waiting.length,
      prefillTokensInFlight,
    }
  }
}
