/**
 * The shapes of prompts and sessions for each kind of workload. The defaults have the magnitude of public traces and
 * data sheets; every number can be set.
 *
 * | kind | prompts |
 * |---|---|
 * | `random` | nothing shared |
 * | `shared-prefix` | one of `groups` system prompts, then new tokens |
 * | `chat` | sessions: one system prompt for all, each turn contains the conversation so far, pauses as of a reader |
 * | `agents` | sessions with many short turns after one of `groups` tool prompts, pauses as of a tool |
 * | `rag` | one of `groups` documents, drawn by Zipf's law, then a question |
 * | `mix` | one in ten prompts is long, the others are short |
 */
import { randomInt } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import { SESSION_TURNS } from './workload-options.ts'
import type { WorkloadKind, WorkloadOptions } from './workload-options.ts'

interface WorkloadTurn {
  /** Appended to the earlier conversation. */
  readonly newTokens: number
  readonly outputTokens: number
  /** After the end of the previous turn. */
  readonly thinkMs: number
}

interface WorkloadPlan {
  readonly prefix: { readonly name: string; readonly tokens: number } | null
  readonly turns: readonly WorkloadTurn[]
}

/** `index`: the number of requests made so far. */
export type WorkloadShape = (random: Random, index: number) => WorkloadPlan

export const WORKLOAD_SHAPES: Readonly<
  Record<WorkloadKind, (options: WorkloadOptions) => WorkloadShape>
> = {
  random: ({ inputTokens = 1000, outputTokens = 200 }) => {
    return (random) => single(random, inputTokens, outputTokens, null)
  },
  'shared-prefix': ({ inputTokens = 500, outputTokens = 200, groups = 64 }) => {
    return (random) => {
      const name = `group ${randomInt(random, groups)}`
      return single(random, inputTokens, outputTokens, { name, tokens: 4096 })
    }
  },
  chat: ({
    inputTokens = 120,
    outputTokens = 300,
    turns = SESSION_TURNS.chat,
    thinkMs = 20_000,
  }) => {
    return (random) => ({
      prefix: { name: 'system', tokens: 512 },
      turns: session(random, { inputTokens, outputTokens, turns, thinkMs }),
    })
  },
  agents: (options) => {
    const {
      inputTokens = 600,
      outputTokens = 150,
      turns = 15,
      thinkMs = 1500,
      groups = 8,
    } = options
    return (random) => ({
      prefix: { name: `tools ${randomInt(random, groups)}`, tokens: 6144 },
      turns: session(random, { inputTokens, outputTokens, turns, thinkMs }),
    })
  },
  rag: ({ inputTokens = 100, outputTokens = 250, groups = 500 }) => {
    const pick = zipf(groups)
    return (random) => {
      const document = pick(random)
      // Each document has its own constant length.
      const tokens = 1000 + ((document * 2_654_435_761) % 9000)
      return single(random, inputTokens, outputTokens, { name: `document ${document}`, tokens })
    }
  },
  mix: ({ inputTokens = 300, outputTokens = 200 }) => {
    return (random) => {
      const isLong = random.next() < 0.1
      return single(random, isLong ? 50 * inputTokens : inputTokens, outputTokens, null)
    }
  },
}

function single(
  random: Random,
  inputTokens: number,
  outputTokens: number,
  prefix: WorkloadPlan['prefix'],
): WorkloadPlan {
  const turn = {
    newTokens: around(random, inputTokens),
    outputTokens: around(random, outputTokens),
    thinkMs: 0,
  }
  return { prefix, turns: [turn] }
}

function session(
  random: Random,
  mean: Readonly<Record<'inputTokens' | 'outputTokens' | 'turns' | 'thinkMs', number>>,
): WorkloadTurn[] {
  const count = Math.max(1, around(random, mean.turns, 0.5))
  return Array.from({ length: count }, () => ({
    newTokens: around(random, mean.inputTokens),
    outputTokens: around(random, mean.outputTokens),
    thinkMs: Math.round(-Math.log(1 - random.next()) * mean.thinkMs),
  }))
}

/** Log-normal with this mean: a whole number, at least 1. */
function around(random: Random, mean: number, sigma = 0.7): number {
  const angle = 2 * Math.PI * random.next()
  const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(angle)
  return Math.max(1, Math.round(mean * Math.exp(sigma * normal - (sigma * sigma) / 2)))
}

/** Item k is drawn in proportion to 1 / (k + 1) (Zipf). */
function zipf(count: number): (random: Random) => number {
  const sums = new Float64Array(count)
  let sum = 0
  for (let k = 0; k < count; k++) sums[k] = sum += 1 / (k + 1)
  return (random) => {
    const at = random.next() * sum
    let [low, high] = [0, count - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (sums[middle]! < at) low = middle + 1
      else high = middle
    }
    return low
  }
}
