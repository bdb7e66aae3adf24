/**
 * The core of the simulated engine: continuous batching over a block pool, in steps, without a clock.
 *
 * A driver calls `step(nowMs)` when the engine is free; the result says when the step ends and what it produces.
 * Until then the driver waits, in real or virtual time, and may submit and cancel. Order within a step: running
 * sequences first (prompt chunks and one token per decoding sequence share the token budget), then waiting ones, head
 * first. Running sequences that lack a block preempt others; waiting ones never do.
 *
 * Owns the order of a step, preemption, and who runs or waits. Admission is in `SimAdmission`, blocks in
 * `SequenceBlocks`, durations in `step-work.ts`; tokens, text and timers are elsewhere.
 */
import { assert } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { SimKvEvent } from '../blocks/block-content.ts'
import { BlockEvents } from '../blocks/block-events.ts'
import { BlockPool } from '../blocks/block-pool.ts'
import { EPSILON_MS, KvTransfers } from './kv-transfers.ts'
import { OffloadTiers } from '../blocks/offload-tiers.ts'
import { forecastQuietSteps, stepsToChange } from './quiet-steps.ts'
import type { QuietRun } from './quiet-steps.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import { SequenceBlocks } from './sequence-blocks.ts'
import type { BlockHasher, BlockReader } from './sequence-blocks.ts'
import { SimAdmission } from './sim-admission.ts'
import { SimSequence } from './sim-sequence.ts'
import type { SimSubmit } from './sim-sequence.ts'
import { Drafts } from './drafts.ts'
import { StepBudget } from './step-budget.ts'
import { durationOf, endOfStep, measureStep } from './step-work.ts'
import { WaitingQueue } from './waiting-queue.ts'

/** One step. The arrays belong to the scheduler and are valid until the next step. */
export interface SimStep<Owner> {
  /** 1; more if quiet steps were computed together. */
  readonly steps: number
  readonly startMs: number
  readonly endMs: number
  readonly prefillMs: number
  readonly decodeMs: number
  /** Each has one more token than before, in this order; with speculation possibly several. */
  readonly emitted: readonly SimSequence<Owner>[]
  /** Sequences that ended in this step; a subset of `emitted`, except on prefill workers. */
  readonly completed: readonly SimSequence<Owner>[]
  /** Sequences that started or restarted. */
  readonly admitted: readonly SimSequence<Owner>[]
  /** Sum over all sequences. */
  readonly outputTokens: number
  readonly preempted: readonly SimSequence<Owner>[]
  /** Prompt tokens computed. */
  readonly promptTokens: number
  readonly kvEvents: readonly SimKvEvent[]
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Outcome = 'scheduled' | 'waits' | 'blocked' | 'preempted-itself'

export class SimScheduler<Owner> {
  readonly config: SchedulerConfig
  readonly #pool: BlockPool
  readonly #events: BlockEvents | null
  readonly #blocks: SequenceBlocks<Owner>
  readonly #waiting = new WaitingQueue<Owner>()
  readonly #transfers: KvTransfers<Owner>
  readonly #onArrived = (sequence: SimSequence<Owner>): void => {
    sequence.state = 'waiting'
    this.#waiting.push(sequence)
  }
  readonly #running: SimSequence<Owner>[] = []
  readonly #emitted: SimSequence<Owner>[] = []
  readonly #completed: SimSequence<Owner>[] = []
  readonly #admitted: SimSequence<Owner>[] = []
  readonly #preempted: SimSequence<Owner>[] = []
  readonly #result: Mutable<SimStep<Owner>>
  readonly #budget: StepBudget
  readonly #admission: SimAdmission<Owner>
  readonly #tiers: OffloadTiers | null
  readonly #drafts: Drafts | null
  #busyUntilMs = -Infinity
  /** The last step found nothing to run; only a transfer, a rest, a submit or a cancel changes that. */
  #isStalled = false
  #wasTold = true

  /** `rank` varies the random numbers of several schedulers; with a `reader` events contain the content of blocks. */
  constructor(
    config: SchedulerConfig,
    hasher: BlockHasher<Owner> | null = null,
    rank = 0,
    reader: BlockReader<Owner> | null = null,
  ) {
    const { blockCount, blockTokens, prefixCaching } = config
    this.config = config
    this.#events = prefixCaching ? new BlockEvents() : null
    this.#pool = new BlockPool(blockCount, this.#events)
    this.#blocks = new SequenceBlocks(this.#pool, blockTokens, prefixCaching, hasher, reader)
    this.#drafts = config.speculation === null ? null : new Drafts(config.speculation, rank)
    this.#tiers = config.offload === null ? null : new OffloadTiers(config.offload, this.#events)
    this.#transfers = new KvTransfers(config, this.#blocks)
    this.#budget = new StepBudget(config)
    this.#admission = new SimAdmission(config, this.#blocks, this.#tiers, this.#budget)
    this.#result = {
      steps: 1,
      startMs: 0,
      endMs: 0,
      prefillMs: 0,
      decodeMs: 0,
      emitted: this.#emitted,
      completed: this.#completed,
      admitted: this.#admitted,
      preempted: this.#preempted,
      outputTokens: 0,
      promptTokens: 0,
      kvEvents: [],
    }
  }

  get pool(): BlockPool {
    return this.#pool
  }

  /** Host memory and disk, if configured. */
  get tiers(): OffloadTiers | null {
    return this.#tiers
  }

  get runningCount(): number {
    return this.#running.length
  }

  get queuedCount(): number {
    return this.#waiting.length + this.#transfers.length
  }

  get isIdle(): boolean {
    return this.runningCount + this.queuedCount === 0
  }

  /** The reason why such a request can never run here, or null. */
  refusal(promptTokens: number, outputTokens: number): 'context' | 'pool' | 'budget' | null {
    const { maxModelLength, blockTokens, blockCount, tokenBudget, chunkedPrefill } = this.config
    const total = promptTokens + outputTokens
    if (total > maxModelLength) return 'context'
    // The KV of the last token is never computed.
    if (Math.ceil(Math.max(promptTokens, total - 1) / blockTokens) > blockCount) return 'pool'
    return !chunkedPrefill && promptTokens > tokenBudget ? 'budget' : null
  }

  submit(request: SimSubmit<Owner>, nowMs: number): SimSequence<Owner> {
    const sequence = new SimSequence(request)
    this.#isStalled = false
    if (sequence.isTransferred) this.#transfers.begin(sequence, nowMs)
    else this.#waiting.push(sequence)
    return sequence
  }

  /** Frees everything that the sequence holds, at once and in any state. Idempotent. */
  cancel(sequence: SimSequence<Owner>): void {
    if (sequence.state === 'ended') return
    if (sequence.state === 'running') removeFrom(this.#running, sequence)
    else if (sequence.state === 'transferring') this.#transfers.remove(sequence)
    else this.#waiting.remove(sequence)
    sequence.state = 'ended'
    this.#isStalled = false
    this.#blocks.releaseAll(sequence)
  }

  /** Events since the last step (cancelling and clearing produce some). */
  takeKvEvents(): readonly SimKvEvent[] {
    return this.#events?.take() ?? []
  }

  /** Evicts the cached blocks that no running sequence uses. */
  clearCache(): void {
    this.#pool.evictInactive()
    this.#tiers?.clear()
    if (this.#pool.activeCount > 0 || this.#events === null) return
    this.#events.take()
    this.#events.cleared()
  }

  /** When `step` can next do something: at the end of the current step, of a transfer or of a rest; null: never. */
  nextWakeMs(nowMs: number): number | null {
    let wakeMs = this.#waiting.length > 0 && !this.#isStalled ? nowMs : Infinity
    for (const sequence of this.#running) wakeMs = Math.min(wakeMs, sequence.notBeforeMs)
    wakeMs = Math.min(wakeMs, this.#transfers.nextMs, this.#tiers?.arrivesAtMs ?? Infinity)
    return wakeMs === Infinity ? null : Math.max(wakeMs, this.#busyUntilMs, nowMs)
  }

  /** The steps after the current one in which each running sequence gets one token and nothing else happens. */
  forecast(stepsMax: number): QuietRun | null {
    const isFull = this.#running.length >= this.config.maxSequences
    if (this.#transfers.length > 0 || (this.#waiting.length > 0 && !isFull)) return null
    return forecastQuietSteps({
      running: this.#running,
      config: this.config,
      spareBlocks: this.#pool.freeCount + this.#pool.inactiveCount,
      fromMs: this.#busyUntilMs,
      stepsMax,
    })
  }

  /** Of the steps given by `forecast`: how many from now on until one changes blocks. */
  get stepsToChange(): number {
    return stepsToChange(this.#running, this.config.blockTokens)
  }

  load(dpRank: number): LoadReport {
    let prefillTokensInFlight = 0
    for (const sequence of this.#running) {
      prefillTokensInFlight += Math.max(0, sequence.promptTokens - sequence.computedTokens)
    }
    if (this.#waiting.length > 0)
      for (const sequence of this.#waiting) prefillTokensInFlight += sequence.promptTokens
    return {
      dpRank,
      activeBlocks: this.#pool.activeCount,
      totalBlocks: this.#pool.blockCount,
      runningRequests: this.#running.length,
      queuedRequests: this.queuedCount,
      prefillTokensInFlight,
    }
  }

  /** Null if there is nothing to do now. Must not be called before the end of the last step. */
  step(nowMs: number): SimStep<Owner> | null {
    assert(nowMs >= this.#busyUntilMs - EPSILON_MS, 'a step begins after the one before')
    this.#clearStep()
    this.#tiers?.advance(nowMs)
    this.#transfers.end(nowMs, this.#onArrived)
    this.#budget.begin()
    this.#scheduleRunning(nowMs)
    if (this.#preempted.length === 0) this.#admitWaiting(nowMs)
    return this.#finishStep(nowMs)
  }

  /** Runs forecast steps together, from `startMs` to `endMs`: same result as one `step` for each. */
  quietSteps(steps: number, startMs: number, endMs: number): SimStep<Owner> {
    this.#clearStep()
    const result = this.#result
    const running = this.#running
    // As in a step: all sequences allocate before an ending one releases, otherwise another block would be evicted.
    for (const sequence of running) {
      const hasBlocks = this.#blocks.growTo(sequence, sequence.computedTokens + steps)
      assert(hasBlocks, 'quiet steps have the blocks that they need')
    }
    let kept = 0
    for (const sequence of running) {
      sequence.computedTokens += steps
      sequence.generatedTokens += steps
      this.#blocks.publishComputed(sequence)
      this.#emitted.push(sequence)
      if (sequence.isComplete) this.#complete(sequence)
      else running[kept++] = sequence
    }
    result.outputTokens = steps * running.length
    running.length = kept
    for (let i = 0; i < steps; i++) this.#admission.afterStep(running, false)
    result.steps = steps
    result.startMs = startMs
    result.endMs = this.#busyUntilMs = endMs
    result.prefillMs = result.promptTokens = 0
    result.decodeMs = endMs - startMs
    result.kvEvents = this.takeKvEvents()
    return result
  }

  #complete(sequence: SimSequence<Owner>): void {
    sequence.state = 'ended'
    this.#blocks.releaseAll(sequence)
    this.#completed.push(sequence)
  }

  #clearStep(): void {
    clear(this.#emitted)
    clear(this.#completed)
    clear(this.#preempted)
    // Sequences that started with a fetch, in a step that computed nothing, are reported with the next step.
    if (this.#wasTold) clear(this.#admitted)
  }

  #scheduleRunning(nowMs: number): void {
    const running = this.#running
    let i = 0
    while (i < running.length && this.#budget.tokens > 0) {
      const sequence = running[i]!
      if (sequence.notBeforeMs > nowMs + EPSILON_MS) {
        i += 1
        continue
      }
      if (this.#scheduleOne(sequence) === 'blocked') return
      // Preempted sequences before this one (oldest first) have moved it down. If it was preempted itself, it was the
      // last one (newest first), or the first after all before it were gone.
      const at = running.indexOf(sequence)
      if (at >= 0) i = at + 1
      else i = this.config.preemption === 'lifo' ? running.length : 0
    }
  }

  #scheduleOne(sequence: SimSequence<Owner>): Outcome {
    const remaining = sequence.length - sequence.computedTokens
    const take = this.#budget.share(remaining)
    if (take <= 0) return remaining > 0 ? 'waits' : 'blocked'
    const target = sequence.computedTokens + take
    while (!this.#blocks.growTo(sequence, target)) {
      const victim = this.config.preemption === 'lifo' ? this.#running.at(-1)! : this.#running[0]!
      this.#preempt(victim)
      if (victim === sequence) return 'preempted-itself'
    }
    this.#budget.give(sequence, sequence.computedTokens, take)
    this.#drafts?.guess(sequence, this.#blocks, this.#budget)
    return 'scheduled'
  }

  #preempt(victim: SimSequence<Owner>): void {
    this.#budget.takeBack(victim)
    removeFrom(this.#running, victim)
    this.#blocks.releaseAll(victim)
    victim.computedTokens = 0
    victim.kvArrived = false
    victim.notBeforeMs = 0
    victim.state = 'preempted'
    this.#waiting.pushFront(victim)
    this.#preempted.push(victim)
  }

  #admitWaiting(nowMs: number): void {
    const { maxSequences, waitingOrder } = this.config
    while (this.#waiting.length > 0 && this.#running.length < maxSequences) {
      if (waitingOrder === 'longest-prefix' && this.#waiting.length <= 128)
        this.#waiting.promoteBest((sequence) => this.#blocks.cachedPrefix(sequence))
      const sequence = this.#waiting.first!
      if (!this.#admission.admit(sequence, this.#running, nowMs)) return
      this.#waiting.shift()
      sequence.state = 'running'
      sequence.admissions += 1
      this.#running.push(sequence)
      this.#admitted.push(sequence)
    }
  }

  #finishStep(nowMs: number): SimStep<Owner> | null {
    const work = measureStep(this.#running)
    this.#isStalled = work.scheduled === 0
    this.#wasTold = !this.#isStalled
    if (this.#wasTold || this.#running.length === 0)
      this.#admission.afterStep(this.#running, this.#preempted.length > 0)
    if (this.#isStalled) return null
    const result = this.#result
    const { prefillMs, decodeMs } = durationOf(work, this.config)
    result.steps = 1
    result.startMs = nowMs
    result.promptTokens = work.promptTokens - work.prefixTokens
    result.outputTokens = 0
    result.prefillMs = prefillMs
    result.decodeMs = decodeMs
    result.endMs = endOfStep(nowMs, prefillMs, decodeMs)
    this.#busyUntilMs = result.endMs
    this.#applyStep(result.endMs)
    result.kvEvents = this.takeKvEvents()
    return result
  }

  #applyStep(endMs: number): void {
    const running = this.#running
    let kept = 0
    for (const sequence of running) {
      if (sequence.stepTokens > 0) this.#advance(sequence, endMs)
      if (sequence.state === 'running') running[kept++] = sequence
    }
    running.length = kept
  }

  #advance(sequence: SimSequence<Owner>, endMs: number): void {
    sequence.computedTokens += sequence.stepTokens
    const isAtEnd = sequence.computedTokens >= sequence.length
    const accepted = this.#drafts?.accepted(sequence.stepDrafts) ?? 0
    sequence.computedTokens += accepted
    sequence.clearStep()
    const tiers = this.#tiers
    if (tiers === null) this.#blocks.publishComputed(sequence)
    else this.#blocks.publishComputed(sequence, (block) => tiers.offload(block, endMs))
    if (!isAtEnd) return
    if (!sequence.isComplete) {
      sequence.generatedTokens += 1 + accepted
      this.#result.outputTokens += 1 + accepted
      this.#emitted.push(sequence)
    }
    if (sequence.isComplete) this.#complete(sequence)
    else if (sequence.restMs > 0) sequence.notBeforeMs = endMs + sequence.restMs
  }
}

/** Only if needed, because even setting the length of an empty array is a call into the runtime. */
function clear(list: unknown[]): void {
  if (list.length > 0) list.length = 0
}

function removeFrom<T>(list: T[], item: T): void {
  const at = list.indexOf(item)
  if (at >= 0) list.splice(at, 1)
}
