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

/** `textOffset`: position of the first of these tokens in the choice's text, in characters. */
export function completionLogprobs(
  tokens: readonly TokenLogprobs[],
  count: number,
  tokenTexts: TokenTexts,
  textOffset: number,
  echoed?: ScoredPrompt,
): Record<string, unknown> {
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
      ...scored.map((token) =>
        Object.fromEntries(
          rivals(token, count).map((rival) => [
            tokenTexts(rival.tokenId).text,
            finite(rival.logprob),
          ]),
        ),
      ),
    ],
    text_offset: offsets,
  }
}
