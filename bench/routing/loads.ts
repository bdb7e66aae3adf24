/**
 * The loads for comparing routing policies: the requests, the fleet, and the definition of a good request.
 *
 * Rates are chosen so that the fleet is busy but not overloaded by a good policy (half to three quarters of its
 * time). Each load is a function of a seed; the conversation trace, when its path is given, is cut into windows
 * instead.
 */
import { readFileSync } from 'node:fs'
import { seededRandom } from '../../src/base/index.ts'
import type { Random } from '../../src/base/index.ts'
import { createWorkload, parseTrace, sharedPrefixWorkload } from '../../src/sim/index.ts'
import type { FleetConfig, FleetGoal, FleetGroup, TraceRequest } from '../../src/sim/index.ts'

export interface LoadRun {
  readonly workers: readonly FleetGroup[]
  readonly trace: readonly TraceRequest[]
  readonly goal: FleetGoal
  readonly router?: FleetConfig['router']
}

export interface QualityLoad {
  readonly name: string
  readonly workers: number
  /** What it represents, for the table's legend. */
  readonly help: string
  /** `requests`: about this many, multiplied for fleets larger than eight workers. */
  make(seed: number, requests: number): LoadRun
}

type Engine = NonNullable<FleetGroup['engine']>
type Make = (random: Random, requests: number, seed: number) => TraceRequest[]

const TRACE_ENV = 'BATON_CONVERSATION_TRACE'
const GOAL: FleetGoal = { ttftMs: 1000, tpotMs: 20 }
/** Tokens of KV per worker, whatever the size of its blocks. */
const ROOM_TOKENS = 1 << 20
const ID_TOKENS = 64

const sized = (blockTokens: number, roomTokens = ROOM_TOKENS): Engine => ({
  blockTokens,
  blockCount: roomTokens / blockTokens,
  // The same contexts take the same time however large the memory is.
  timing: {
    kind: 'polynomial',
    decode: [5.74, (54.01 * roomTokens) / ROOM_TOKENS, -25.74 * (roomTokens / ROOM_TOKENS) ** 2],
  },
})
const alike = (workers: number, engine: Engine = {}): FleetGroup[] => [
  { mode: 'agg', count: workers, engine },
]
/** KV of an 8B model over 100 Gbit/s. */
const TRANSFER: Engine = { kvBytesPerToken: 131_072, kvTransferBandwidth: 12.5 }
const apart = (workers: number, engine: Engine = TRANSFER): FleetGroup[] => [
  { mode: 'prefill', count: workers / 2, engine },
  { mode: 'decode', count: workers / 2, engine },
]

interface LoadParts {
  readonly name: string
  readonly help: string
  readonly workers?: number
  readonly fleet?: (workers: number) => FleetGroup[]
  readonly goal?: FleetGoal
  /** Requests per second of eight workers. */
  readonly perSecond: number
  readonly trace: (perSecond: number) => Make
}

function load({ name, help, workers = 8, fleet = alike, goal = GOAL, ...parts }: LoadParts) {
  const times = workers / 8
  const made: QualityLoad = {
    name,
    help,
    workers,
    make: (seed, requests) => ({
      workers: fleet(workers),
      goal,
      trace: parts.trace(parts.perSecond * times)(
        seededRandom(1000 + seed),
        // A large fleet gets more, but fewer per worker, so that a run takes minutes.
        Math.round(times === 1 ? requests : (requests * times) / 2),
        seed,
      ),
    }),
  }
  return made
}

/** Poisson arrivals; `one` makes a request. */
function poisson(perSecond: number, one: (random: Random, prompts: Prompts) => Shape): Make {
  return (random, requests) => {
    const prompts = new Prompts()
    let atMs = 0
    return Array.from({ length: requests }, () => {
      atMs += exponential(random, 1000 / perSecond)
      return requestOf(atMs, one(random, prompts))
    })
  }
}

interface Shape {
  readonly hashIds: readonly number[]
  readonly inputTokens: number
  readonly outputTokens: number
}

const requestOf = (atMs: number, shape: Shape): TraceRequest => ({
  ...shape,
  atMs,
  blockTokens: ID_TOKENS,
})
const exponential = (random: Random, mean: number): number => -Math.log(1 - random.next()) * mean

/** Log-normal around the mean, at least 1. */
function around(random: Random, mean: number, sigma = 0.7): number {
  const angle = 2 * Math.PI * random.next()
  const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(angle)
  return Math.max(1, Math.round(mean * Math.exp(sigma * normal - (sigma * sigma) / 2)))
}

/** One of `count`, in proportion to 1 / rank. */
function zipf(random: Random, count: number): number {
  return Math.min(Math.floor(Math.exp(random.next() * Math.log(count + 1))) - 1, count - 1)
}

class Prompts {
  #next = 1
  readonly #shared = new Map<string, number[]>()

  /** Shared parts, each by name and length in whole blocks, then new tokens. */
  behind(shared: readonly (readonly [string, number])[], newTokens: number, outputTokens: number) {
    const hashIds = shared.flatMap(([name, tokens]) => this.#ids(name, tokens))
    const inputTokens = hashIds.length * ID_TOKENS + newTokens
    hashIds.push(...this.#fresh(Math.ceil(newTokens / ID_TOKENS)))
    return { hashIds, inputTokens, outputTokens }
  }

  #ids(name: string, tokens: number): number[] {
    const known = this.#shared.get(name) ?? this.#fresh(Math.ceil(tokens / ID_TOKENS))
    this.#shared.set(name, known)
    return known
  }

  #fresh(count: number): number[] {
    return Array.from({ length: count }, () => this.#next++)
  }
}

const synthetic =
  (perSecond: number): Make =>
  (_, requests, seed) =>
    sharedPrefixWorkload({
      requests,
      groups: Math.round(requests / 12),
      prefixBlocks: 16,
      questionTokens: 900,
      outputTokens: 150,
      requestsPerSecond: perSecond,
      seed,
    })

/** Tools by Zipf's law, each with its own long instructions, then a task; short answers. */
const tools = (perSecond: number) =>
  poisson(perSecond, (random, prompts) => {
    const tool = zipf(random, 60)
    const instructions = 1500 + ((tool * 2_654_435_761) % 7000)
    return prompts.behind(
      [[`tool ${tool}`, instructions]],
      around(random, 1800, 0.9),
      around(random, 180),
    )
  })

const generated =
  (
    options: Omit<Parameters<typeof createWorkload>[0], 'requests' | 'requestsPerSecond' | 'seed'>,
  ) =>
  (perSecond: number): Make =>
  (_, requests, seed) =>
    createWorkload({ ...options, requests, requestsPerSecond: perSecond, seed: seed + 1 })

const short = (perSecond: number) =>
  poisson(perSecond, (random, prompts) =>
    prompts.behind([], around(random, 90, 0.5), around(random, 120)),
  )

/** A quiet fleet, and every 20 s a burst of questions about one new document. */
const bursts =
  (perSecond: number): Make =>
  (random, requests) => {
    const prompts = new Prompts()
    const size = 40
    return Array.from({ length: requests }, (_, i) => {
      const burst = Math.floor(i / size)
      const atMs = (1000 * size * burst) / perSecond + 8 * (i % size)
      return requestOf(
        atMs,
        prompts.behind([[`document ${burst}`, 6000]], around(random, 150), around(random, 100)),
      )
    })
  }

/** Windows of the trace, `speedup` times as fast, one for each seed. */
const conversation = (path: string, speedup: number) => (): Make => (_random, requests, seed) => {
  const all = parseTrace(readFileSync(path, 'utf8'), { arrivalSpeedup: speedup, spread: true })
  const from = Math.floor((seed * all.length) / 5) % Math.max(all.length - requests, 1)
  const window = all.slice(from, from + requests)
  const startMs = window[0]?.atMs ?? 0
  return window.map((request) => ({ ...request, atMs: request.atMs - startMs }))
}

const FAST_AND_SLOW = (workers: number): FleetGroup[] => [
  { mode: 'agg', count: (3 * workers) / 4 },
  { mode: 'agg', count: workers / 4, engine: { speedupRatio: 0.25 } },
]

function basic(workers: number): QualityLoad[] {
  return [
    load({
      name: 'synthetic',
      goal: { ttftMs: 200, tpotMs: 16 },
      help: 'shared prefixes of 8,192 tokens',
      workers,
      perSecond: 42,
      trace: synthetic,
    }),
    load({
      name: 'tools',
      goal: { ttftMs: 400, tpotMs: 22 },
      help: 'tool instructions by Zipf, tasks of 1,800 tokens',
      workers,
      perSecond: 80,
      trace: tools,
    }),
    load({
      name: 'documents',
      goal: { ttftMs: 300, tpotMs: 20 },
      help: 'documents of 1,000 to 10,000 tokens by Zipf, questions',
      workers,
      perSecond: 75,
      trace: generated({ kind: 'rag' }),
    }),
    load({
      name: 'busy agents',
      goal: { ttftMs: 120, tpotMs: 9 },
      help: 'sessions of 15 short turns, tools answer at once',
      workers,
      perSecond: 110,
      trace: generated({ kind: 'agents', thinkMs: 500 }),
    }),
    load({
      name: 'chat',
      goal: { ttftMs: 70, tpotMs: 7 },
      help: 'sessions of 5 turns, readers',
      workers,
      perSecond: 120,
      trace: generated({ kind: 'chat', inputTokens: 600, thinkMs: 5000 }),
    }),
    load({
      name: 'long and short',
      goal: { ttftMs: 200, tpotMs: 12 },
      help: 'nothing shared, one prompt in ten is 50 times as long',
      workers,
      perSecond: 110,
      trace: generated({ kind: 'mix', inputTokens: 200 }),
    }),
    load({
      name: 'heterogeneous',
      goal: { ttftMs: 400, tpotMs: 20 },
      help: 'a quarter of the workers has a quarter of the speed; shared prefixes',
      workers,
      fleet: FAST_AND_SLOW,
      perSecond: 60,
      trace: generated({ kind: 'shared-prefix', groups: 4 * workers }),
    }),
    load({
      name: 'short prompts',
      goal: { ttftMs: 40, tpotMs: 10 },
      help: 'nothing shared, 90 tokens',
      workers,
      perSecond: 160,
      trace: short,
    }),
    load({
      name: 'idle bursts',
      goal: { ttftMs: 110, tpotMs: 8 },
      help: 'every 40 s 40 questions about one new document',
      workers,
      perSecond: 1,
      trace: bursts,
    }),
    load({
      name: 'prefill and decode',
      goal: { ttftMs: 200, tpotMs: 12 },
      help: 'half of the workers each; shared prefixes',
      workers,
      fleet: apart,
      perSecond: 42,
      trace: generated({ kind: 'shared-prefix', groups: 64 }),
    }),
  ]
}

export function qualityLoads(trace = process.env[TRACE_ENV]): QualityLoad[] {
  const real =
    trace === undefined || trace === ''
      ? []
      : [
          load({
            name: 'conversation',
            help: 'public trace, 4 times as fast',
            perSecond: 14,
            trace: conversation(trace, 4),
          }),
          load({
            name: 'conversation, P/D',
            help: 'the same on prefill and decode workers',
            fleet: apart,
            perSecond: 14,
            trace: conversation(trace, 3),
          }),
        ]
  const ofBlocks = (blockTokens: number) =>
    load({
      name: `blocks of ${blockTokens}`,
      goal: { ttftMs: 200, tpotMs: 14 },
      help: 'chat behind shared prefixes',
      fleet: (workers) => alike(workers, sized(blockTokens)),
      perSecond: 70,
      trace: generated({ kind: 'shared-prefix', inputTokens: 700 }),
    })
  return [
    ...real,
    ...basic(8),
    load({
      name: 'documents, scarce',
      goal: { ttftMs: 300, tpotMs: 16 },
      help: 'documents, room for an eighth',
      fleet: (workers) => alike(workers, sized(64, ROOM_TOKENS / 8)),
      perSecond: 60,
      trace: generated({ kind: 'rag' }),
    }),
    load({
      name: 'documents, P/D',
      goal: { ttftMs: 400, tpotMs: 14 },
      help: 'documents on prefill and decode workers',
      fleet: apart,
      perSecond: 45,
      trace: generated({ kind: 'rag' }),
    }),
    load({
      name: 'long and short, P/D',
      goal: { ttftMs: 300, tpotMs: 9 },
      help: 'long and short on prefill and decode workers',
      fleet: apart,
      perSecond: 60,
      trace: generated({ kind: 'mix', inputTokens: 200 }),
    }),
    ...[16, 256].map(ofBlocks),
    ...basic(64),
  ]
}
