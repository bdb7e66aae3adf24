/**
 * A worker of the simulated fleet: the scheduler of the simulated engine, a request plane that reaches it without
 * sockets, and what it tells the router.
 *
 * Everything is plain calls and timers of the virtual clock; no promise is made.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, Timer, WorkerId } from '../base/index.ts'
import { SimScheduler } from '../engine/index.ts'
import type { SchedulerConfig, SimSequence, SimStep } from '../engine/index.ts'
import { hashBlocks } from '../kv/index.ts'
import type { KvEvent } from '../kv/index.ts'
import { finishChunk, usageOf } from '../request/index.ts'
import type {
  DisaggregationMode,
  GenerateRequest,
  ReplySink,
  RequestHandle,
  WorkerCard,
} from '../request/index.ts'
import type { FleetObserver } from '../router/index.ts'
import { traceBlocksIn } from './trace-reader.ts'

interface FleetWorkerOptions {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
  readonly config: SchedulerConfig
  readonly clock: Clock
  readonly fleet: FleetObserver
  /** KV events reach the router so much later; null: the engine sends none. */
  readonly eventDelayMs: number | null
}

export interface FleetWorkerTotals {
  requests: number
  promptTokens: number
  cachedTokens: number
  /** Of 512 tokens, as traces count. */
  promptBlocks: number
  cachedBlocks: number
  outputTokens: number
  busyMs: number
  preemptions: number
  steps: number
}

const TOKEN_ID = 1

class FleetRequest implements RequestHandle {
  readonly request: GenerateRequest
  readonly sink: ReplySink
  readonly #worker: FleetWorker
  sequence: SimSequence<FleetRequest> | null = null
  hasEnded = false
  toldTokens = 0

  constructor(request: GenerateRequest, sink: ReplySink, worker: FleetWorker) {
    this.request = request
    this.sink = sink
    this.#worker = worker
  }

  cancel(_kind: 'stop' | 'kill'): void {
    this.#worker.cancel(this)
  }
}

export class FleetWorker {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
  readonly totals: FleetWorkerTotals = {
    requests: 0,
    promptTokens: 0,
    cachedTokens: 0,
    promptBlocks: 0,
    cachedBlocks: 0,
    outputTokens: 0,
    busyMs: 0,
    preemptions: 0,
    steps: 0,
  }
  readonly #options: FleetWorkerOptions
  readonly #scheduler: SimScheduler<FleetRequest>
  readonly #live = new Set<FleetRequest>()
  /** A step is under way; its end is the next thing that happens. */
  #isComputing = false
  /** Until the next moment with something to do; cut short by whatever comes before. */
  #sleep: Timer | null = null
  #isGone = false
  #eventSequence = 0
  #hashCount = 0

  constructor(options: FleetWorkerOptions) {
    this.#options = options
    this.workerId = options.workerId
    this.mode = options.mode
    // Blocks of the output are never part of another prompt here: any hash of their own will do.
    this.#scheduler = new SimScheduler(options.config, (sequence) => {
      this.#hashCount += 1
      sequence.hashes.push(this.#hashCount >>> 0, (0x5eed0000 ^ Number(options.workerId)) >>> 0)
    })
  }

  card(model: string): WorkerCard {
    const { blockTokens, blockCount, maxSequences, tokenBudget } = this.#options.config
    return {
      workerId: this.workerId,
      mode: this.mode,
      host: 'simulated',
      port: 1,
      engine: {
        model,
        kvCacheBlockSize: blockTokens,
        totalKvBlocks: blockCount,
        ...(maxSequences === Infinity ? {} : { maxNumSeqs: maxSequences }),
        ...(tokenBudget === Infinity ? {} : { maxNumBatchedTokens: tokenBudget }),
      },
      engineName: 'sim',
      publishesKvEvents: this.mode !== 'decode' && this.#options.eventDelayMs !== null,
      version: 'sim',
    }
  }

  send(request: GenerateRequest, sink: ReplySink): RequestHandle {
    const entry = new FleetRequest(request, sink, this)
    const promptTokens = request.tokenIds.length
    const outputTokens = this.mode === 'prefill' ? 0 : (request.stop.maxTokens ?? 128)
    const refusal = this.#isGone ? 'gone' : this.#scheduler.refusal(promptTokens, outputTokens)
    if (refusal !== null) {
      entry.hasEnded = true
      const code =
        refusal === 'gone' ? 'transport.cannot_connect' : 'request.context_length_exceeded'
      sink.onError(new BatonError(code, `refused: ${refusal}`))
      return entry
    }
    this.totals.requests += 1
    this.#live.add(entry)
    const { blockTokens, prefixCaching } = this.#options.config
    entry.sequence = this.#scheduler.submit(
      {
        owner: entry,
        promptTokens,
        promptHashes: prefixCaching
          ? hashBlocks(request.tokenIds, blockTokens).sequence
          : new Uint32Array(0),
        outputTokens,
        isTransferred: this.mode === 'decode' && request.prefillResult !== undefined,
      },
      this.#options.clock.nowMs(),
    )
    this.#wake()
    return entry
  }

  cancel(entry: FleetRequest): void {
    if (entry.hasEnded || entry.sequence === null) return
    this.#scheduler.cancel(entry.sequence)
    const usage = usageOf(entry.request.tokenIds.length, entry.sequence.generatedTokens)
    this.#end(entry)
    entry.sink.onChunk(finishChunk('cancelled', { usage }))
    this.#wake()
  }

  /** The process dies: nothing more comes from it, and its connections break. */
  kill(): void {
    this.#isGone = true
    for (const entry of this.#live) {
      if (entry.sequence !== null) this.#scheduler.cancel(entry.sequence)
      this.#end(entry)
      entry.sink.onError(new BatonError('transport.disconnected', 'the worker died'))
    }
  }

  /** Something has changed: if no step is under way, one begins in this turn. */
  #wake(delayMs = 0): void {
    if (this.#isComputing || this.#isGone) return
    this.#sleep?.cancel()
    this.#sleep = this.#options.clock.after(delayMs, () => {
      this.#sleep = null
      this.#step()
    })
  }

  #step(): void {
    if (this.#isGone) return
    const { clock } = this.#options
    const nowMs = clock.nowMs()
    const step = this.#scheduler.step(nowMs)
    this.#tell(step?.kvEvents ?? this.#scheduler.takeKvEvents())
    if (step === null) {
      const wakeMs = this.#scheduler.nextWakeMs(nowMs)
      if (wakeMs !== null) this.#wake(wakeMs - nowMs)
      return
    }
    this.#count(step)
    this.#isComputing = true
    clock.after(step.endMs - nowMs, () => {
      if (this.#isGone) return
      // What comes because of these tokens is in the next step.
      this.#deliver(step)
      this.#isComputing = false
      this.#step()
    })
  }

  #count(step: SimStep<FleetRequest>): void {
    const { totals } = this
    totals.steps += 1
    totals.busyMs += step.endMs - step.startMs
    totals.preemptions += step.preempted.length
    totals.outputTokens += step.outputTokens
    for (const { admissions, isTransferred, promptTokens, cachedTokens } of step.admitted) {
      if (admissions > 1 || isTransferred) continue
      totals.promptTokens += promptTokens
      totals.cachedTokens += cachedTokens
      totals.promptBlocks += traceBlocksIn(promptTokens, promptTokens)
      totals.cachedBlocks += traceBlocksIn(cachedTokens, promptTokens)
    }
  }

  #deliver(step: SimStep<FleetRequest>): void {
    for (const { owner, state, generatedTokens } of step.emitted) {
      // The last one comes with the end.
      const ready = state === 'ended' ? generatedTokens - 1 : generatedTokens
      for (; owner.toldTokens < ready && !owner.hasEnded; owner.toldTokens++)
        owner.sink.onToken(TOKEN_ID)
    }
    for (const sequence of step.completed) {
      const entry = sequence.owner
      if (entry.hasEnded) continue
      this.#end(entry)
      const { promptTokens, generatedTokens, cachedTokens } = sequence
      const usage = usageOf(promptTokens, generatedTokens, cachedTokens)
      const rest =
        this.mode === 'prefill'
          ? { usage, prefillResult: { engineParams: { simPrefill: 1 }, cachedTokens } }
          : { usage, tokenIds: [TOKEN_ID] }
      entry.sink.onChunk(finishChunk('length', rest))
    }
  }

  #end(entry: FleetRequest): void {
    entry.hasEnded = true
    this.#live.delete(entry)
  }

  #tell(events: readonly KvEvent[]): void {
    const { fleet, clock, eventDelayMs } = this.#options
    fleet.load(this.workerId, this.#scheduler.load(0))
    if (events.length === 0 || this.mode === 'decode' || eventDelayMs === null) return
    this.#eventSequence += 1
    const batch = { sequence: this.#eventSequence, dpRank: 0, events }
    if (eventDelayMs === 0) fleet.kvEvents(this.workerId, batch)
    else {
      clock.after(eventDelayMs, () => {
        if (!this.#isGone) fleet.kvEvents(this.workerId, batch)
      })
    }
  }
}
