/**
 * What no router can beat, even one that knows the future: each request as if it were alone on the fastest worker, with
 * every token cached that can be.
 *
 * Why that is a bound: a request computes at least the tokens of its prompt that nothing sent before it contains, on
 * one worker, since caches hold only what was computed. What else is in its steps, and what runs before them, can only
 * add time: the times of the engines compared here do not fall when a step contains more (the default decode polynomial
 * does so above 1.05 times the memory, which no policy comes near), and computing a prompt in several steps of equal
 * parts is the fastest, as they are convex. So it holds for each request, and therefore for their mean, for the k-th
 * slowest, and for the share of those that meet the goal.
 *
 * Relaxed, so that the truth is worse: nobody waits for or computes together with anybody, a shared prefix is cached
 * everywhere as soon as the first prompt with it is sent, and caches are unlimited. Assumed: requests go to the workers
 * of their role, where these exist first to a prefill and then to a decode worker.
 */
import { Distribution, TRACE_BLOCK_TOKENS } from '../../src/sim/index.ts'
import type { FleetGroup, TraceRequest } from '../../src/sim/index.ts'
import { createSchedulerConfig } from '../../src/simengine/index.ts'
import type { SchedulerConfig } from '../../src/simengine/index.ts'
import type { CellFigures } from './figures.ts'
import type { LoadRun } from './loads.ts'

export interface RequestBound {
  readonly ttftMs: number
  /** Mean time between two tokens. */
  readonly tpotMs: number
  readonly e2eMs: number
}

export function lowerBound({ workers, trace, goal }: LoadRun): CellFigures {
  const [ttft, e2e] = [new Distribution(), new Distribution()]
  let good = 0
  for (const { ttftMs, tpotMs, e2eMs } of requestBounds(workers, trace)) {
    ttft.add(ttftMs)
    e2e.add(e2eMs)
    if (ttftMs <= goal.ttftMs && tpotMs <= goal.tpotMs) good++
  }
  const { mean, p99 } = ttft.summary()
  const share = good / trace.length
  return { ttft: mean, p99, e2e: e2e.summary().mean, good: share, reuse: NaN, completed: 1 }
}

export function requestBounds(
  workers: readonly FleetGroup[],
  trace: readonly TraceRequest[],
): RequestBound[] {
  const engines = (...modes: FleetGroup['mode'][]): SchedulerConfig[] =>
    workers
      .filter(({ mode }) => modes.includes(mode))
      .map(({ engine }) => createSchedulerConfig(engine))
  const [first, second] = [engines('agg', 'prefill'), engines('decode')]
  const prompts = new Prompts(trace)
  return trace.map((request, index) => {
    const promptMs = (engine: SchedulerConfig): number =>
      prefillMs(engine, request.inputTokens, prompts.cachedMost(index))
    if (second.length === 0)
      return fastest(first.map((engine) => answer(engine, request, promptMs(engine))))
    const ms = Math.min(...first.map(promptMs))
    return fastest(second.map((engine) => answer(engine, request, ms + arrivalMs(engine, request))))
  })
}

/** The best of each figure, possibly of different workers. */
function fastest(bounds: readonly RequestBound[]): RequestBound {
  const least = (pick: (bound: RequestBound) => number): number => Math.min(...bounds.map(pick))
  return {
    ttftMs: least(({ ttftMs }) => ttftMs),
    tpotMs: least(({ tpotMs }) => tpotMs),
    e2eMs: least(({ e2eMs }) => e2eMs),
  }
}

function answer(engine: SchedulerConfig, request: TraceRequest, ttftMs: number): RequestBound {
  const { inputTokens, outputTokens } = request
  let ms = 0
  for (let token = 1; token < outputTokens; token++) ms += stepMs(engine, inputTokens + token)
  return { ttftMs, tpotMs: ms / Math.max(1, outputTokens - 1), e2eMs: ttftMs + ms }
}

/** Only whole blocks are reused, and the last token is always computed. */
function prefillMs(engine: SchedulerConfig, promptTokens: number, cachedTokens: number): number {
  const { timing, prefillSpeedup, tokenBudget, blockTokens } = engine
  const reused = Math.floor(Math.min(cachedTokens, promptTokens - 1) / blockTokens) * blockTokens
  const tokens = promptTokens - reused
  const inSteps = (steps: number): number => {
    const batch = { requests: 1, meanPromptTokens: tokens / steps, meanPrefixTokens: 0 }
    return (steps * timing.prefillMs(batch)) / prefillSpeedup
  }
  let steps = Math.ceil(tokens / tokenBudget)
  while (inSteps(steps + 1) < inSteps(steps)) steps++
  return inSteps(steps)
}

/** One step for one request with this many tokens. */
function stepMs(engine: SchedulerConfig, contextTokens: number): number {
  const { timing, decodeSpeedup, blockCount, blockTokens } = engine
  const capacityTokens = blockCount * blockTokens
  return timing.decodeMs({ requests: 1, contextTokens, capacityTokens }) / decodeSpeedup
}

/** From the end of the prefill to the first token on a decode worker. */
const arrivalMs = (engine: SchedulerConfig, { inputTokens }: TraceRequest): number =>
  inputTokens * (engine.transfer?.msPerToken ?? 0) + stepMs(engine, inputTokens)

class Prompts {
  readonly #trace: readonly TraceRequest[]
  /** When a request is sent at the earliest: a turn follows the first of its session. */
  readonly #sinceMs: number[] = []
  /** By block: the requests with it. */
  readonly #holders = new Map<number, number[]>()

  constructor(trace: readonly TraceRequest[]) {
    this.#trace = trace
    for (const [index, { atMs, after, hashIds }] of trace.entries()) {
      this.#sinceMs.push(after === undefined ? atMs : this.#sinceMs[after]!)
      for (const id of hashIds) {
        const holders = this.#holders.get(id)
        if (holders === undefined) this.#holders.set(id, [index])
        else holders.push(index)
      }
    }
  }

  /** The tokens before the first block that no request sent before this one can contain. */
  cachedMost(index: number): number {
    const { hashIds, inputTokens, blockTokens = TRACE_BLOCK_TOKENS } = this.#trace[index]!
    const fresh = hashIds.findIndex(
      (id) => !this.#holders.get(id)!.some((other) => this.#mayPrecede(other, index)),
    )
    return fresh < 0 ? inputTokens : fresh * blockTokens
  }

  /** The time at which a turn is sent depends on the router; only its own later turns surely follow it. */
  #mayPrecede(other: number, index: number): boolean {
    if (other === index) return false
    const { after, waitsFor } = this.#trace[index]!
    const isTurn = after !== undefined || waitsFor !== undefined
    if (!isTurn && this.#sinceMs[other]! > this.#sinceMs[index]!) return false
    for (let one: number | undefined = other; one !== undefined; one = this.#trace[one]!.after)
      if (one === index) return false
    return true
  }
}
