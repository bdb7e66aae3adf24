/**
 * The values that an engine may yield, and their conversion to `Chunk`.
 *
 * A chunk is a copy of the engine's item, of which each field is read once: what was checked is what is sent, although
 * an engine may use its objects again, or have getters that return another value the next time. What the item holds is
 * counted before it is copied. Ids may be in a typed array, and there may be text instead of ids.
 */
import type {
  Chunk,
  PrefillResult,
  PromptLogprobs,
  TokenLogprob,
  TokenLogprobs,
  Usage,
} from '../request/index.ts'
import { checkTokenCount, ItemBudget, PAYLOAD, SCORES } from './item-budget.ts'
import { plainCopy } from './plain-copy.ts'
import { typedArrayClass, typedArrayLength } from './typed-array.ts'
import type { TypedArrayClass } from './typed-array.ts'

/** Integer typed arrays that are accepted as a list of token ids. */
type TokenArray = Uint32Array | Int32Array | Uint16Array | Uint8Array

const TOKEN_CLASSES: ReadonlySet<TypedArrayClass | undefined> = new Set([
  'Uint32Array',
  'Int32Array',
  'Uint16Array',
  'Uint8Array',
])

export type EngineChunk = Omit<Chunk, 'tokenIds'> & {
  /** New tokens only. Absent: none, for example with `text`. */
  readonly tokenIds?: readonly number[] | TokenArray
}

/** Null: the value is not a chunk. The values of its fields are not checked. Throws if it holds too much. */
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
  const scores = new ItemBudget(SCORES)
  const payload = new ItemBudget(PAYLOAD)
  return {
    tokenIds,
    ...(text === undefined ? {} : { text }),
    ...(logprobs === undefined ? {} : { logprobs: scoresOf(logprobs, scores) }),
    ...(promptLogprobs === undefined
      ? {}
      : { promptLogprobs: promptScoresOf(promptLogprobs, scores) }),
    ...(finish === undefined ? {} : { finish }),
    ...(stopReason === undefined ? {} : { stopReason }),
    ...(usage === undefined ? {} : { usage: usageOf(usage) }),
    ...(prefillResult === undefined
      ? {}
      : { prefillResult: prefillResultOf(prefillResult, payload) }),
    ...(engineData === undefined ? {} : { engineData: plainCopy(engineData, payload) }),
    ...(embedding === undefined ? {} : { embedding }),
  }
}

function idsOf(given: EngineChunk['tokenIds']): readonly number[] | null {
  if (given === undefined) return []
  if (Array.isArray(given)) {
    const { length } = given as readonly number[]
    // By far the most common case.
    return length === 1 ? [given[0] as number] : numbersOf(given, length)
  }
  if (!TOKEN_CLASSES.has(typedArrayClass(given))) return null
  return numbersOf(given, typedArrayLength(given))
}

function numbersOf(given: ArrayLike<number>, length: number): number[] {
  checkTokenCount(length)
  const own: number[] = []
  for (let i = 0; i < length; i++) own.push(given[i] as number)
  return own
}

function scoresOf(scores: readonly TokenLogprobs[], budget: ItemBudget): readonly TokenLogprobs[] {
  return copied(scores, budget, (entry) => {
    if (typeof entry !== 'object' || entry === null) return entry
    const { tokenId, logprob, top } = entry
    return { tokenId, logprob, top: copied(top, budget, scoreOf) }
  })
}

function scoreOf(score: TokenLogprob): TokenLogprob {
  if (typeof score !== 'object' || score === null) return score
  const { tokenId, logprob } = score
  return { tokenId, logprob }
}

function promptScoresOf({ from, tokens }: PromptLogprobs, budget: ItemBudget): PromptLogprobs {
  return { from, tokens: scoresOf(tokens, budget) }
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
function prefillResultOf(result: PrefillResult, budget: ItemBudget): PrefillResult {
  if (typeof result !== 'object' || result === null) return result
  const { engineParams, cachedTokens, meetsDecode } = result
  return {
    ...(engineParams === undefined ? {} : { engineParams: plainCopy(engineParams, budget) }),
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(meetsDecode === undefined ? {} : { meetsDecode }),
  }
}

/** Scores in a list of its own; a value that is no list stays as it is, and its check refuses it. */
function copied<Score>(
  list: readonly Score[],
  budget: ItemBudget,
  copy: (score: Score) => Score,
): readonly Score[] {
  if (!Array.isArray(list)) return list
  const { length } = list as readonly Score[]
  budget.take(length)
  const own: Score[] = []
  for (let i = 0; i < length; i++) own.push(copy((list as readonly Score[])[i] as Score))
  return own
}
