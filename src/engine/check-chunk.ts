/**
 * Rules for a single chunk, independent of the chunks before it: the values that other processes and clients will
 * read.
 *
 * A chunk with only one token passes after a few comparisons; other fields are checked if they are present.
 */
import { isU32 } from '../base/index.ts'
import { isKvOffer } from '../request/index.ts'
import type { Chunk, PromptLogprobs, TokenLogprobs, Usage } from '../request/index.ts'
import { PAYLOAD_BYTES_MAX } from './item-budget.ts'
import { payloadFault } from './plain-payload.ts'
import { quoted, shown } from './shown.ts'

/** Rules for a single chunk; the other `STREAM_RULES` need the whole stream. */
export const CHUNK_RULES = {
  'chunk-malformed':
    'A chunk must be an object with `tokenIds` (a list or an integer typed array) or `text`, not both; without either it must have another known field.',
  'item-too-large':
    'An item must not have more than 4,194,304 token ids, or 1,048,576 log-probabilities with all alternatives.',
  'token-invalid': 'Token ids must be unsigned 32-bit integers.',
  'finish-unknown': '`finish` must be a known reason.',
  'usage-invalid': 'Counts in `usage` must be integers from 0 to 2^32 − 1.',
  'cached-over-prompt': '`cachedTokens` must not be more than the tokens of the prompt.',
  'logprobs-mismatch': 'A chunk with log-probabilities must have one entry for each of its tokens.',
  'prompt-logprobs-invalid':
    '`promptLogprobs` must be those of prompt tokens after the first one, from a position in the prompt on.',
  'logprob-invalid':
    'Log-probabilities must be numbers (−Infinity is allowed) of valid token ids, with at most 10,000 alternatives per token.',
  'payload-invalid':
    '`stopReason` must be a text or a token id; `engineData` and `prefillResult` must be plain values; none of them, nor `text`, may be over 8 MiB.',
} as const

type ChunkRule = keyof typeof CHUNK_RULES

interface ChunkFault {
  readonly rule: ChunkRule
  readonly detail: string
}

/** Far above what a request can ask for. */
const ALTERNATIVES_MAX = 10_000

const FINISH_REASONS: ReadonlySet<unknown> = new Set([
  'stop',
  'eos',
  'length',
  'cancelled',
  'content_filter',
])

/** The first rule that the chunk violates, or null. */
export function chunkFault(chunk: Chunk): ChunkFault | null {
  const { tokenIds, text, finish, logprobs } = chunk
  for (let i = 0; i < tokenIds.length; i++) {
    const id: unknown = tokenIds[i]
    if (!isU32(id)) return fault('token-invalid', `token id ${quoted(id)}`)
  }
  if (text !== undefined) {
    if (typeof text !== 'string') return fault('chunk-malformed', '`text` is not a string')
    if (text !== '' && tokenIds.length > 0) return fault('chunk-malformed', 'both ids and text')
    if (text.length > PAYLOAD_BYTES_MAX) {
      return fault('payload-invalid', `\`text\` has ${text.length} characters`)
    }
  }
  if (finish !== undefined && !FINISH_REASONS.has(finish)) {
    return fault('finish-unknown', `finish '${shown(finish)}'`)
  }
  if (logprobs !== undefined) {
    const found = logprobsFault(tokenIds, logprobs)
    if (found !== null) return found
  }
  return isBare(chunk) ? null : besideFault(chunk)
}

function isBare({
  usage,
  prefillResult,
  engineData,
  stopReason,
  embedding,
  promptLogprobs,
}: Chunk): boolean {
  return (
    embedding === undefined &&
    promptLogprobs === undefined &&
    usage === undefined &&
    prefillResult === undefined &&
    engineData === undefined &&
    stopReason === undefined
  )
}

function besideFault({
  usage,
  prefillResult,
  engineData,
  stopReason,
  embedding,
  promptLogprobs,
}: Chunk): ChunkFault | null {
  if (embedding !== undefined) {
    return fault('payload-invalid', 'an embedding is what `embed` returns, not an item of a stream')
  }
  if (promptLogprobs !== undefined) {
    const found = promptLogprobsFault(promptLogprobs)
    if (found !== null) return found
  }
  if (usage !== undefined) {
    const found = usageFault(usage)
    if (found !== null) return found
  }
  if (stopReason !== undefined && typeof stopReason !== 'string' && !isU32(stopReason)) {
    return fault('payload-invalid', '`stopReason` is neither a text nor a token id')
  }
  if (prefillResult !== undefined) {
    if (typeof prefillResult !== 'object' || prefillResult === null) {
      return fault('payload-invalid', '`prefillResult` is not a record')
    }
    const { cachedTokens, kvOffer } = prefillResult
    // Engines do not give offers; a worker that is not Baton's may send an invalid one.
    if (kvOffer !== undefined && !isKvOffer(kvOffer)) {
      return fault('payload-invalid', '`prefillResult.kvOffer` is no offer of KV')
    }
    if (cachedTokens !== undefined && !isU32(cachedTokens)) {
      return fault('usage-invalid', `prefillResult.cachedTokens is ${quoted(cachedTokens)}`)
    }
  }
  const carried = payloadFault({ engineData, prefillResult, stopReason }, 'the chunk')
  return carried === null ? null : fault('payload-invalid', carried)
}

function usageFault(usage: Usage): ChunkFault | null {
  if (typeof usage !== 'object' || usage === null) {
    return fault('usage-invalid', '`usage` is not a record')
  }
  const { promptTokens, completionTokens, totalTokens, cachedTokens } = usage
  for (const count of [promptTokens, completionTokens, totalTokens, cachedTokens ?? 0]) {
    if (!isU32(count)) return fault('usage-invalid', `a count is ${quoted(count)}`)
  }
  return cachedTokens !== undefined && cachedTokens > promptTokens
    ? fault('cached-over-prompt', `${cachedTokens} of ${promptTokens} prompt tokens`)
    : null
}

function logprobsFault(
  tokenIds: readonly number[],
  logprobs: readonly TokenLogprobs[],
): ChunkFault | null {
  const isBeside = tokenIds.length === 0
  if (!Array.isArray(logprobs) || (!isBeside && logprobs.length !== tokenIds.length)) {
    return fault('logprobs-mismatch', `for ${tokenIds.length} tokens`)
  }
  for (const [i, entry] of logprobs.entries()) {
    if (!isBeside && entry?.tokenId !== tokenIds[i]) {
      return fault(
        'logprobs-mismatch',
        `token ${tokenIds[i]} has the log-probabilities of another token`,
      )
    }
    const found = entryFault(entry)
    if (found !== null) return found
  }
  return null
}

function promptLogprobsFault({ from, tokens }: PromptLogprobs): ChunkFault | null {
  if (!isU32(from) || from === 0 || !Array.isArray(tokens)) {
    return fault('prompt-logprobs-invalid', `from ${shown(from)}`)
  }
  for (const entry of tokens as readonly TokenLogprobs[]) {
    const found = entryFault(entry)
    if (found !== null) return found
  }
  return null
}

function entryFault(entry: TokenLogprobs): ChunkFault | null {
  if (!Array.isArray(entry?.top)) return fault('logprob-invalid', 'without a list of alternatives')
  if (entry.top.length > ALTERNATIVES_MAX)
    return fault('logprob-invalid', `${entry.top.length} alternatives`)
  for (const one of [entry, ...entry.top]) {
    if (!isU32(one?.tokenId) || !isLogprob(one.logprob)) {
      return fault('logprob-invalid', `${shown(one?.logprob)} of token ${shown(one?.tokenId)}`)
    }
  }
  return null
}

function isLogprob(value: unknown): boolean {
  return typeof value === 'number' && value < Infinity
}

function fault(rule: ChunkRule, detail: string): ChunkFault {
  return { rule, detail }
}
