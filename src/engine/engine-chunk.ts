/**
 * The values that an engine may yield, and their conversion to `Chunk`.
 *
 * A chunk is a copy of the engine's item, of which each field is read once: what was checked is what is sent, although
 * an engine may use its objects again, or have getters that return another value the next time. Ids may be in a typed
 * array, and there may be text instead of ids.
 */
import type {
  Chunk,
  PrefillResult,
  PromptLogprobs,
  TokenLogprob,
  TokenLogprobs,
  Usage,
} from '../request/index.ts'
import { plainCopy, VALUES_MAX } from './plain-copy.ts'

/** Integer typed arrays that are accepted as a list of token ids. */
type TokenArray = Uint32Array | Int32Array | Uint16Array | Uint8Array

export type EngineChunk = Omit<Chunk, 'tokenIds'> & {
  /** New tokens only. Absent: none, for example with `text`. */
  readonly tokenIds?: readonly number[] | TokenArray
}

/** Null: the value is not a chunk. The values of its fields are not checked. */
export function chunkOf(item: EngineChunk): Chunk | null {
  if (typeof item !== 'object' || item === null) return null
  const given = item.tokenIds
  const tokenIds = idsOf(given)
  if (tokenIds === null) return null
  const { text, logprobs, promptLogprobs, finish, stopReason } = item
  const { usage, prefillResult, engineData, embedding } = item
  const hasMore =
    text !== undefined ||
    logprobs !== undefined ||
    promptLogprobs !== undefined ||
    finish !== undefined ||
    stopReason !== undefined ||
    usage !== undefined ||
    prefillResult !== undefined ||
    engineData !== undefined ||
    embedding !== undefined
  // A misspelt key (`token_ids`) would silently lose tokens.
  if (!hasMore) return given === undefined ? null : { tokenIds }
  return {
    tokenIds,
    ...(text === undefined ? {} : { text }),
    ...(logprobs === undefined ? {} : { logprobs: scoresOf(logprobs) }),
    ...(promptLogprobs === undefined ? {} : { promptLogprobs: promptScoresOf(promptLogprobs) }),
    ...(finish === undefined ? {} : { finish }),
    ...(stopReason === undefined ? {} : { stopReason }),
    ...(usage === undefined ? {} : { usage: usageOf(usage) }),
    ...(prefillResult === undefined ? {} : { prefillResult: prefillResultOf(prefillResult) }),
    ...(engineData === undefined ? {} : { engineData: plainCopy(engineData) }),
    ...(embedding === undefined ? {} : { embedding }),
  }
}

function idsOf(given: EngineChunk['tokenIds']): readonly number[] | null {
  if (given === undefined) return []
  if (isTokenArray(given)) return Array.from(given)
  if (!Array.isArray(given)) return null
  // By far the most common case.
  return given.length === 1 ? [given[0] as number] : copied(given, (id) => id)
}

function scoresOf(scores: readonly TokenLogprobs[]): readonly TokenLogprobs[] {
  return copied(scores, (entry) => {
    if (typeof entry !== 'object' || entry === null) return entry
    const { tokenId, logprob, top } = entry
    return { tokenId, logprob, top: copied(top, scoreOf) }
  })
}

function scoreOf(score: TokenLogprob): TokenLogprob {
  if (typeof score !== 'object' || score === null) return score
  const { tokenId, logprob } = score
  return { tokenId, logprob }
}

function promptScoresOf({ from, tokens }: PromptLogprobs): PromptLogprobs {
  return { from, tokens: scoresOf(tokens) }
}

function usageOf(usage: Usage): Usage {
  if (typeof usage !== 'object' || usage === null) return usage
  const { promptTokens, completionTokens, totalTokens, cachedTokens } = usage
  return {
    promptTokens,
    completionTokens,
    totalTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
  }
}

/** Without `kvOffer`: an offer names an address that a decode worker connects to, and only the worker makes offers. */
function prefillResultOf(result: PrefillResult): PrefillResult {
  if (typeof result !== 'object' || result === null) return result
  const { engineParams, cachedTokens, meetsDecode } = result
  return {
    ...(engineParams === undefined ? {} : { engineParams: plainCopy(engineParams) }),
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(meetsDecode === undefined ? {} : { meetsDecode }),
  }
}

/** A list of its own; a value that is no list stays as it is, and its check refuses it. */
function copied<Item>(list: readonly Item[], copy: (item: Item) => Item): readonly Item[] {
  if (!Array.isArray(list)) return list
  const { length } = list as readonly Item[]
  if (length > VALUES_MAX) throw new RangeError(`a list of ${length} values`)
  const own: Item[] = []
  for (let i = 0; i < length; i++) own.push(copy((list as readonly Item[])[i] as Item))
  return own
}

function isTokenArray(value: unknown): value is TokenArray {
  return (
    value instanceof Uint32Array ||
    value instanceof Int32Array ||
    value instanceof Uint16Array ||
    value instanceof Uint8Array
  )
}
