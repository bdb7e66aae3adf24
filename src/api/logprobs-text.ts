/**
 * Log-probabilities as the two APIs show them: a list of objects for chat, four parallel lists for completions.
 */
import type { TokenLogprob, TokenLogprobs } from '../request/index.ts'
import { asciiJson } from './json-escape.ts'

/** How a token is shown. */
interface TokenFace {
  readonly text: string
  readonly bytes: readonly number[]
}

export type TokenFaces = (tokenId: number) => TokenFace

/** JSON has no minus infinity; this is what other servers say instead. */
const LOGPROB_MIN = -9999

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? Math.max(logprob, LOGPROB_MIN) : LOGPROB_MIN
}

/** The rivals as asked for, and the chosen token in any case. */
function rivals(token: TokenLogprobs, count: number): readonly TokenLogprob[] {
  if (count === 0) return []
  const top = token.top.slice(0, count)
  return top.some((rival) => rival.tokenId === token.tokenId) ? top : [...top, token]
}

export function chatLogprobsEntries(
  tokens: readonly TokenLogprobs[],
  count: number,
  faces: TokenFaces,
): Record<string, unknown>[] {
  const entry = ({ tokenId, logprob }: TokenLogprob): Record<string, unknown> => {
    const face = faces(tokenId)
    return { token: face.text, logprob: finite(logprob), bytes: face.bytes }
  }
  return tokens.map((token) => ({
    ...entry(token),
    top_logprobs: rivals(token, count).map(entry),
  }))
}

export function chatLogprobsJson(
  tokens: readonly TokenLogprobs[],
  count: number,
  faces: TokenFaces,
): string {
  return asciiJson({ content: chatLogprobsEntries(tokens, count, faces), refusal: null })
}

/** `textOffset` is where the first of these tokens begins in the choice's text, in characters. */
export function completionLogprobs(
  tokens: readonly TokenLogprobs[],
  count: number,
  faces: TokenFaces,
  textOffset: number,
): Record<string, unknown> {
  let offset = textOffset
  const offsets: number[] = []
  for (const token of tokens) {
    offsets.push(offset)
    offset += faces(token.tokenId).text.length
  }
  return {
    tokens: tokens.map((token) => faces(token.tokenId).text),
    token_logprobs: tokens.map((token) => finite(token.logprob)),
    top_logprobs: tokens.map((token) =>
      Object.fromEntries(
        rivals(token, count).map((rival) => [faces(rival.tokenId).text, finite(rival.logprob)]),
      ),
    ),
    text_offset: offsets,
  }
}
