/**
 * Generates workloads from a seed: the requests (shapes of prompts and sessions) and their arrivals.
 *
 * The same options give the same requests. Lengths are drawn around their means (log-normal); sharing depends on the
 * kind. Every request fits the format of traces, so a workload can be written to a file and replayed anywhere.
 */
import { BatonError, seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import { createArrivals, WORKLOAD_ARRIVALS } from './arrivals.ts'
import type { TraceRequest } from './trace-request.ts'
import { OPTIONS_OF, SESSION_TURNS, SHAPE_OPTIONS, WORKLOAD_KINDS } from './workload-options.ts'
import type { WorkloadOptions } from './workload-options.ts'
import { WORKLOAD_SHAPES } from './workload-shapes.ts'
import type { WorkloadShape } from './workload-shapes.ts'

/** Tokens per id of a workload's prompts, because shared prefixes may be shorter than 512 tokens. */
const WORKLOAD_BLOCK_TOKENS = 64

/** All requests of a workload are in memory at once. */
const REQUESTS_MAX = 1_000_000
/** Prompts of `mix` are 50 times as long, and lengths vary around their mean. */
const MEAN_TOKENS_MAX = 2 ** 16
/** The turns of a session are drawn together, and groups have a table. */
const TURNS_MAX = 10_000
const GROUPS_MAX = 1_000_000

export function createWorkload(options: WorkloadOptions): TraceRequest[] {
  const { kind, arrivals = 'poisson', requests, requestsPerSecond, seed = 0 } = options
  oneOf('kind', kind, WORKLOAD_KINDS)
  oneOf('arrivals', arrivals, WORKLOAD_ARRIVALS)
  positive('requests', requests, REQUESTS_MAX)
  positive('requestsPerSecond', requestsPerSecond)
  const { inputTokens, outputTokens, turns, groups } = options
  if (inputTokens !== undefined) positive('input', inputTokens, MEAN_TOKENS_MAX)
  if (outputTokens !== undefined) positive('output', outputTokens, MEAN_TOKENS_MAX)
  if (turns !== undefined) positive('turns', turns, TURNS_MAX)
  if (groups !== undefined) positive('groups', groups, GROUPS_MAX)
  refuseUnused(options)
  const random = seededRandom(seed ^ 0x776f726b)
  const perArrival = turns ?? SESSION_TURNS[kind]
  const seconds = requests / requestsPerSecond
  const next = createArrivals(arrivals, requestsPerSecond / perArrival, seconds, random)
  const shape = WORKLOAD_SHAPES[kind](options)
  const made: TraceRequest[] = []
  let atMs = 0
  const prompts = new PromptMaker(random)
  while (made.length < requests) {
    atMs = next(atMs)
    addArrival(made, { atMs, shape, prompts, requests })
  }
  return made
}

interface Arrival {
  readonly atMs: number
  readonly shape: WorkloadShape
  readonly prompts: PromptMaker
  readonly requests: number
}

/** Adds one request, or one session with all its turns. */
function addArrival(made: TraceRequest[], { atMs, shape, prompts, requests }: Arrival): void {
  const plan = shape(prompts.random, made.length)
  let hashIds: number[] = []
  let [inputTokens, answerTokens] = [0, 0]
  const isSession = plan.turns.length > 1
  const sessionId = isSession ? `s${made.length}` : undefined
  for (const [turn, { newTokens, outputTokens, thinkMs }] of plan.turns.entries()) {
    if (made.length >= requests) return
    if (turn === 0 && plan.prefix !== null) {
      hashIds = prompts.shared(plan.prefix.name, plan.prefix.tokens)
      inputTokens = hashIds.length * WORKLOAD_BLOCK_TOKENS
    }
    // The complete blocks of the previous prompt; its last one may be partial, and the answer has no ids yet.
    const whole = Math.floor(inputTokens / WORKLOAD_BLOCK_TOKENS)
    inputTokens += answerTokens + newTokens
    const blocks = Math.ceil(inputTokens / WORKLOAD_BLOCK_TOKENS)
    hashIds = [...hashIds.slice(0, whole), ...prompts.fresh(blocks - whole)]
    made.push({
      atMs,
      inputTokens,
      outputTokens,
      hashIds,
      blockTokens: WORKLOAD_BLOCK_TOKENS,
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(turn === 0 ? {} : { after: made.length - 1, delayMs: thinkMs }),
    })
    answerTokens = outputTokens
  }
}

/** Ids of blocks: new ones, and those of named prefixes. */
class PromptMaker {
  readonly random: Random
  readonly #shared = new Map<string, number[]>()
  #nextId = 1

  constructor(random: Random) {
    this.random = random
  }

  fresh(blocks: number): number[] {
    return Array.from({ length: Math.max(0, blocks) }, () => this.#nextId++)
  }

  shared(name: string, tokens: number): number[] {
    const known = this.#shared.get(name) ?? this.fresh(Math.ceil(tokens / WORKLOAD_BLOCK_TOKENS))
    this.#shared.set(name, known)
    return [...known]
  }
}

function positive(name: string, value: number, most = Infinity): void {
  if (value > most) {
    const text = `workload: ${name} must be at most ${most}, got ${value}`
    throw new BatonError('config.invalid', text)
  }
  if (value > 0 && Number.isFinite(value)) return
  throw new BatonError('config.invalid', `workload: ${name} must be above 0, got ${value}`)
}

/** An option that changes nothing is a mistake of whoever set it. */
function refuseUnused(options: WorkloadOptions): void {
  const { kind } = options
  const used: readonly string[] = OPTIONS_OF[kind]
  for (const [option, name] of Object.entries(SHAPE_OPTIONS))
    if (options[option as keyof WorkloadOptions] !== undefined && !used.includes(option))
      throw new BatonError('config.invalid', `workload: ${name} has no effect on ${kind}`)
}

function oneOf(name: string, value: string, known: readonly string[]): void {
  if (known.includes(value)) return
  throw new BatonError(
    'config.invalid',
    `workload: ${name} must be one of ${known.join(', ')}, got ${value}`,
  )
}
