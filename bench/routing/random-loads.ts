/**
 * Loads with random parameters, drawn from a seed: a policy that is tuned to the named loads of `loads.ts` gains
 * nothing here. Drawn are the fleet (size, speeds, roles, block size, memory), the engine's speed, the kind of
 * requests with all lengths, how they arrive, and how busy the fleet is (prefill and decode take 20 to 75 % of its
 * time if each shared block is computed once per four workers).
 */
import { seededRandom } from '../../src/base/index.ts'
import type { Random } from '../../src/base/index.ts'
import { createWorkload } from '../../src/sim/index.ts'
import type { FleetGroup, TraceRequest } from '../../src/sim/index.ts'
import type { QualityLoad } from './loads.ts'

type Engine = NonNullable<FleetGroup['engine']>
type Workload = Parameters<typeof createWorkload>[0]

const KINDS = ['random', 'shared-prefix', 'chat', 'agents', 'rag', 'mix'] as const
const ARRIVALS = ['poisson', 'poisson', 'poisson', 'bursts', 'diurnal'] as const
const WORKERS = [2, 4, 8, 8, 16, 16, 32, 64]
const BLOCKS = [16, 32, 64, 64, 128, 256]

/** `requests` per run; each seed of a load draws its requests anew, with the same parameters. */
export const randomLoads = (from: number, count: number): QualityLoad[] =>
  Array.from({ length: count }, (_, i) => randomLoad(from + i))

function randomLoad(number: number): QualityLoad {
  const draw = new Draw(seededRandom(7919 * (number + 1)))
  const workers = draw.one(WORKERS)
  const [promptMs, tokenMs] = [draw.log(3, 30), draw.log(0.004, 0.08)]
  const [stepMs, contextMs] = [draw.log(4, 25), draw.log(2, 60)]
  const blockTokens = draw.one(BLOCKS)
  const roomTokens = 2 ** draw.one([17, 18, 19, 20, 20, 20])
  const engine: Engine = {
    blockTokens,
    blockCount: roomTokens / blockTokens,
    timing: {
      kind: 'polynomial',
      prefill: [promptMs, tokenMs, draw.one([0, 4e-7])],
      decode: [stepMs, contextMs],
    },
  }
  const isApart = workers >= 4 && draw.chance(0.25)
  const slow = draw.chance(0.3) ? draw.log(0.2, 0.8) : 1
  const groups = fleetOf(workers, engine, isApart, slow)
  const workload = workloadOf(draw)
  const hasIds = draw.chance(0.6)
  const busy = draw.between(0.2, 0.75)
  const perSecond = 1000 / loadOf(createWorkload({ ...workload, requests: 600, seed: number }))
  const ttftMs = draw.between(1.5, 4) * (promptMs + 900 * tokenMs + stepMs)
  const tpotMs = draw.between(1.2, 2.2) * stepMs
  return {
    name: `${number}: ${workload.kind}${isApart ? ', P/D' : ''}${slow < 1 ? ', slow' : ''}`,
    workers,
    help: '',
    make: (seed, requests) => {
      const count = Math.round(Math.min(Math.max(requests, 30 * workers), 4 * requests))
      const requestsPerSecond = perSecond
      const trace = createWorkload({
        ...workload,
        requests: count,
        requestsPerSecond,
        seed: 1000 * number + seed + 1,
      })
      return {
        workers: groups,
        goal: { ttftMs, tpotMs },
        trace: hasIds ? trace : trace.map(withoutSession),
      }
    },
  }

  /** Milliseconds of the whole fleet per request, divided by how busy it is to be. */
  function loadOf(trace: readonly TraceRequest[]): number {
    const seen = new Set<number>()
    let [fresh, output, context] = [0, 0, 0]
    for (const { hashIds = [], inputTokens, outputTokens, blockTokens: size = 64 } of trace) {
      let known = 0
      for (const id of hashIds) {
        if (seen.has(id)) known++
        else seen.add(id)
      }
      // Each worker of a large fleet computes some of the shared blocks again.
      fresh += Math.max(inputTokens - known * size, 0) + 0.1 * known * size
      output += outputTokens
      context += inputTokens + outputTokens / 2
    }
    const [prompt, answer] = [fresh / trace.length, output / trace.length]
    const speed = slow === 1 ? 1 : 0.75 + 0.25 * slow
    const prefillWorkers = speed * (isApart ? workers / 2 : workers)
    const prefill = (promptMs + tokenMs * prompt) / prefillWorkers
    // At most 40 requests decode on a worker, and their contexts fill at most 70 % of its memory.
    const running = Math.min(40, (0.7 * roomTokens) / (context / trace.length))
    const decode =
      (answer * (stepMs + 0.5 * contextMs)) / running / (isApart ? workers / 2 : workers)
    return Math.max(prefill, decode) / busy
  }
}

function withoutSession(request: TraceRequest): TraceRequest {
  const { sessionId, ...rest } = request
  return sessionId === undefined ? request : rest
}

function fleetOf(workers: number, engine: Engine, isApart: boolean, slow: number): FleetGroup[] {
  const modes = isApart ? (['prefill', 'decode'] as const) : (['agg'] as const)
  const moved: Engine = isApart
    ? { ...engine, kvBytesPerToken: 131_072, kvTransferBandwidth: 12.5 }
    : engine
  return modes.flatMap((mode): FleetGroup[] => {
    const count = workers / modes.length
    const slowCount = slow === 1 ? 0 : Math.max(1, Math.round(count / 4))
    const fast = { mode, count: count - slowCount, engine: moved }
    if (slowCount === 0) return [fast]
    return [fast, { mode, count: slowCount, engine: { ...moved, speedupRatio: slow } }]
  })
}

function workloadOf(draw: Draw): Omit<Workload, 'requests' | 'seed'> {
  const kind = draw.one(KINDS)
  const base = { kind, arrivals: draw.one(ARRIVALS), requestsPerSecond: 1 }
  const outputTokens = Math.round(draw.log(20, 400))
  switch (kind) {
    case 'random':
      return { ...base, outputTokens, inputTokens: Math.round(draw.log(50, 4000)) }
    case 'mix':
      return { ...base, outputTokens, inputTokens: Math.round(draw.log(50, 400)) }
    case 'chat':
    case 'agents': {
      const inputTokens = Math.round(draw.log(50, 1500))
      const turns = Math.round(draw.log(2, 20))
      const thinkMs = Math.round(draw.log(100, 10_000))
      const groups = Math.round(draw.log(1, 40))
      const session = { ...base, outputTokens, inputTokens, turns, thinkMs }
      return base.kind === 'agents' ? { ...session, groups } : session
    }
    default:
      return {
        ...base,
        outputTokens,
        inputTokens: Math.round(draw.log(50, 2000)),
        groups: Math.round(draw.log(4, 600)),
      }
  }
}

class Draw {
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.#random.next()
  }

  /** Log-uniform. */
  log(low: number, high: number): number {
    return low * (high / low) ** this.#random.next()
  }

  chance(share: number): boolean {
    return this.#random.next() < share
  }

  one<T>(values: readonly T[]): T {
    return values[Math.floor(values.length * this.#random.next())] as T
  }
}
