/**
 * The workloads of docs/performance.md: prompts of so many words, answers of so many tokens, so many at once.
 */
export interface Workload {
  readonly name: string
  readonly concurrency: number
  readonly tokens: number
  /** The engine runs at a real pace (ITL about 5.8 ms) instead of giving every token at once. */
  readonly paced: boolean
  readonly bodies: readonly string[]
}

const WORDS = (
  'the a fox robot lives in castle mill forest and has red blue kite boat who where does story about brave little ' +
  'old young king queen river mountain house garden friend day morning went found'
).split(' ')

/** Words that are single tokens of the shipped model; another seed shares no prefix. */
export function prompt(words: number, seed: number): string {
  let state = seed
  const next = (): string => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return WORDS[(state >>> 8) % WORDS.length] ?? 'the'
  }
  return Array.from({ length: words }, next).join(' ')
}

function workload(
  name: string,
  concurrency: number,
  words: number,
  tokens: number,
  flags: { stream?: boolean; paced?: boolean } = {},
): Workload {
  const { stream = true, paced = false } = flags
  const bodies = Array.from({ length: words > 1000 ? 4 : 64 }, (_, index) =>
    JSON.stringify({
      model: 'storyteller',
      messages: [{ role: 'user', content: prompt(words, index + 1) }],
      max_tokens: tokens,
      ignore_eos: true,
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    }),
  )
  return { name, concurrency, tokens, paced, bodies }
}

export const WARM_UP = workload('s16x1', 16, 100, 1)

export const WORKLOADS: readonly Workload[] = [
  workload('s1', 1, 100, 64),
  workload('s16', 16, 100, 64),
  workload('s128', 128, 100, 64),
  workload('n16', 16, 100, 1, { stream: false }),
  WARM_UP,
  workload('s16x512', 16, 100, 512),
  workload('l8k', 4, 8000, 8),
  workload('p64', 64, 100, 256, { paced: true }),
  workload('p200', 200, 100, 256, { paced: true }),
]
