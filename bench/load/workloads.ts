/**
 * The workloads of docs/performance.md: prompts of a number of words, answers of a number of tokens, a number of
 * concurrent requests.
 */
export interface Workload {
  readonly name: string
  readonly concurrency: number
  readonly tokens: number
  /** The engine has a realistic pace (ITL about 5.8 ms) instead of returning every token at once. */
  readonly paced: boolean
  readonly asked: Asked
}

const WORDS = (
  'the a fox robot lives in castle mill forest and has red blue kite boat who where does story about brave little ' +
  'old young king queen river mountain house garden friend day morning went found'
).split(' ')

/** Words that are single tokens of the shipped model; prompts of different seeds share no prefix. */
export function prompt(words: number, seed: number): string {
  let state = seed
  const next = (): string => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return WORDS[(state >>> 8) % WORDS.length] ?? 'the'
  }
  return Array.from({ length: words }, next).join(' ')
}

/** The parameters of a workload's request; its prompt is made of `seed`, so that no two requests share one. */
export interface Asked {
  readonly model: string
  readonly words: number
  readonly tokens: number
  readonly stream: boolean
}

const MADE_UP_WORDS = 2000

/** Mostly words of 3 to 8 random letters, which are 2 to 4 tokens in any vocabulary, and the common ones above. */
const DICTIONARY: readonly string[] = [...madeUpWords(), ...WORDS]

function madeUpWords(): string[] {
  let state = 4
  const next = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state >>> 8) % below
  }
  const word = (): string =>
    Array.from({ length: 3 + next(6) }, () => String.fromCharCode(97 + next(26))).join('')
  return Array.from({ length: MADE_UP_WORDS }, word)
}

/** A text unique to the seed; texts of two seeds differ from the first words on. */
export function distinctText(words: number, seed: number): string {
  let state = Math.imul(seed, 2654435761) >>> 0
  let text = ''
  for (let i = 0; i < words; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    text += `${DICTIONARY[(state >>> 8) % DICTIONARY.length] ?? 'the'} `
  }
  return `${text}request ${seed}`
}

export function bodyOf({ model, words, tokens, stream }: Asked, seed: number): string {
  return JSON.stringify({
    model,
    messages: [{ role: 'user', content: distinctText(words, seed) }],
    max_tokens: tokens,
    ignore_eos: true,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  })
}

function workload(
  name: string,
  concurrency: number,
  words: number,
  tokens: number,
  flags: { stream?: boolean; paced?: boolean } = {},
): Workload {
  const { stream = true, paced = false } = flags
  const asked: Asked = { model: 'storyteller', words, tokens, stream }
  return { name, concurrency, tokens, paced, asked }
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
