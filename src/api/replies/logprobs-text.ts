/** Log-probabilities in the formats of the two APIs: a list of objects for chat, four parallel lists for completions. */
import type { TokenLogprob, TokenLogprobs } from '../../request/index.ts'
import { asciiJson } from '../fields/json-escape.ts'

/** How a token is shown. */
interface TokenFace {
  readonly text: string
  readonly bytes: readonly number[]
}

export type TokenTexts = (tokenId: number) => TokenFace

/** JSON has no minus infinity; other servers use this value instead. */
const LOGPROB_MIN = -9999

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? Math.max(logprob, LOGPROB_MIN) : LOGPROB_MIN
}

/** The requested number of alternatives, and the chosen token in any case. */
function rivals(token: TokenLogprobs, count: number): readonly TokenLogprob[] {
  if (count === 0) return []
  const top = token.top.slice(0, count)
  return top.some((rival) => rival.tokenId === token.tokenId) ? top : [...top, token]
}

/**
 * Different tokens may have one text, for example parts of characters. Such a text gets the log-probability of the
 * likeliest of them, so that an evaluator still finds the chosen token's where that was the likeliest of all.
 */
function likeliestByText(
  tokens: readonly TokenLogprob[],
  tokenTexts: TokenTexts,
): Record<string, number> {
  const byText = new Map<string, number>()
  for (const { tokenId, logprob } of tokens) {
    const { text } = tokenTexts(tokenId)
    byText.set(text, Math.max(finite(logprob), byText.get(text) ?? LOGPROB_MIN))
  }
  return Object.fromEntries(byText)
}

export function chatLogprobsEntries(
  tokens: readonly TokenLogprobs[],
  count: number,
  tokenTexts: TokenTexts,
): Record<string, unknown>[] {
  const entry = ({ tokenId, logprob }: TokenLogprob): Record<string, unknown> => {
    const shown = tokenTexts(tokenId)
    return { token: shown.text, logprob: finite(logprob), bytes: shown.bytes }
  }
  return tokens.map((token) => ({
    ...entry(token),
    top_logprobs: rivals(token, count).map(entry),
  }))
}

export function chatLogprobsJson(
  tokens: readonly TokenLogprobs[],
  count: number,
  tokenTexts: TokenTexts,
): string {
  return asciiJson({ content: chatLogprobsEntries(tokens, count, tokenTexts), refusal: null })
}

/** By token id, as in vLLM's token endpoint. */
export function tokenLogprobsEntries(
  tokens: readonly TokenLogprobs[],
  count: number,
): readonly unknown[] {
  const shown = ({ tokenId, logprob }: TokenLogprob): Record<string, unknown> => ({
    token_id: tokenId,
    logprob: finite(logprob),
  })
  return tokens.map((token) => ({
    ...shown(token),
    top_logprobs: rivals(token, count).map(shown),
  }))
}

/** The tokens of a prompt; the first one has no log-probability. */
export interface ScoredPrompt {
  readonly tokenIds: ArrayLike<number>
  readonly logprobs: readonly TokenLogprobs[]
}

/** vLLM's format: one object of candidates by id per prompt token, and null for the first. */
export function promptLogprobsEntries(
  { logprobs }: ScoredPrompt,
  count: number,
  tokenTexts: TokenTexts,
): readonly unknown[] {
  const shown = ({ tokenId, logprob }: TokenLogprob, rank: number): [string, unknown] => [
    String(tokenId),
    {
      logprob: finite(logprob),
      ...(rank > 0 ? { rank } : {}),
      decoded_token: tokenTexts(tokenId).text,
    },
  ]
  const entries = logprobs.map((token) => {
    const top = token.top.slice(0, count)
    const rank = top.findIndex(({ tokenId }) => tokenId === token.tokenId) + 1
    const rivalsOf = top.map((rival, index) => shown(rival, index + 1))
    return Object.fromEntries([shown(token, rank), ...rivalsOf])
  })
  return [null, ...entries]
}

/** Four lists with one entry per token. */
export interface CompletionLogprobs {
  readonly tokens: readonly string[]
  readonly token_logprobs: readonly (number | null)[]
  readonly top_logprobs: readonly (Record<string, number> | null)[]
  readonly text_offset: readonly number[]
}

/** `textOffset`: characters of the tokens of the choice before these. */
export function completionLogprobs(
  tokens: readonly TokenLogprobs[],
  count: number,
  tokenTexts: TokenTexts,
  textOffset: number,
  echoed?: ScoredPrompt,
): CompletionLogprobs {
  let offset = textOffset
  const offsets: number[] = []
  // The first token of a prompt has no probability.
  const given = echoed === undefined ? [] : [echoed.tokenIds[0] ?? 0]
  const scored = echoed === undefined ? tokens : [...echoed.logprobs, ...tokens]
  const texts = [...given, ...scored.map(({ tokenId }) => tokenId)].map((id) => tokenTexts(id).text)
  for (const text of texts) {
    offsets.push(offset)
    offset += text.length
  }
  const none = given.map(() => null)
  return {
    tokens: texts,
    token_logprobs: [...none, ...scored.map((token) => finite(token.logprob))],
    top_logprobs: [
      ...none,
      ...scored.map((token) => likeliestByText(rivals(token, count), tokenTexts)),
    ],
    text_offset: offsets,
  }
}
