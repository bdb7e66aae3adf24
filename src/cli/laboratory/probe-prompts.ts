/**
 * Prompts of `baton profile`: of about a given number of tokens, and new each time, so that no cache holds them.
 */
import type { Random } from '../../base/index.ts'
import type { LiveAsk, LiveTarget } from '../live/live-connection.ts'
import { askLive } from '../live/live-request.ts'
import { randomWords } from './live-prompt.ts'

export type ProbePrompt = LiveAsk['prompt']

export interface ProbePrompts {
  ofTokens(tokens: number): ProbePrompt
  /** The same prompt with that many new tokens behind it. */
  longer(known: ProbePrompt, tokens: number): ProbePrompt
}

export function promptsOfIds(range: readonly [number, number], random: Random): ProbePrompts {
  const [from, to] = range
  const ofTokens = (tokens: number): number[] =>
    Array.from({ length: tokens }, () => from + Math.floor(random.next() * (to - from)))
  return { ofTokens, longer: (known, tokens) => [...(known as number[]), ...ofTokens(tokens)] }
}

const [FEW_WORDS, MANY_WORDS] = [40, 240]

/**
 * For servers that accept no token ids. How many tokens the chat template and a word have is asked from the server's
 * usage, with two prompts; without usage a word counts as one token.
 */
export async function promptsOfWords(target: LiveTarget, random: Random): Promise<ProbePrompts> {
  const tokensOf = async (words: number): Promise<number> => {
    const prompt = randomWords(random, words)
    return (await askLive(target, { prompt, maxTokens: 1 })).promptTokens || words
  }
  const few = await tokensOf(FEW_WORDS)
  const perWord = Math.max(0.1, ((await tokensOf(MANY_WORDS)) - few) / (MANY_WORDS - FEW_WORDS))
  const base = few - FEW_WORDS * perWord
  const words = (tokens: number): string =>
    randomWords(random, Math.max(1, Math.round(tokens / perWord)))
  return {
    ofTokens: (tokens) => words(tokens - base),
    longer: (known, tokens) => `${known as string} ${words(tokens)}`,
  }
}
