/**
 * Checks the prompt's length. A prompt that leaves no room for an output token is refused here, with both
 * numbers, before any worker sees it.
 */
import { BatonError } from '../../base/index.ts'
import { isLongerThan, tokenFloorOf } from '../../text/index.ts'
import type { ModelText } from '../../text/index.ts'

/**
 * The number of tokens that may be generated; undefined when the context length is unknown and the request sets
 * no limit.
 */
export function outputBudget(
  promptTokens: number,
  contextLength: number | undefined,
  asked: number | undefined,
  param: string,
): number | undefined {
  if (contextLength === undefined || contextLength === 0) return asked
  const isOnlyEcho = asked === 0 && promptTokens <= contextLength
  if (promptTokens >= contextLength && !isOnlyEcho) {
    throw tooLong(promptTokens, contextLength, param)
  }
  const available = contextLength - promptTokens
  return asked === undefined ? available : Math.min(asked, available)
}

/** An embedding needs no room for an output token. */
export function refuseLongInput(
  promptTokens: number,
  contextLength: number | undefined,
  param: string,
): void {
  if (contextLength === undefined || contextLength === 0 || promptTokens <= contextLength) return
  throw tooLong(promptTokens, contextLength, param)
}

/**
 * Checked before a text is tokenised: a text that cannot fit in any tokenisation is refused without spending
 * seconds on it.
 */
export function refuseHopelessText(
  text: string,
  { tokenizer }: ModelText,
  contextLength: number | undefined,
  param: string,
): void {
  if (contextLength === undefined || contextLength === 0) {
    refuseEndlessText(text, undefined, param)
    return
  }
  if (text.length <= contextLength) return
  const floor = tokenFloorOf(tokenizer)
  const charactersMost = floor.charactersMost(contextLength)
  if (charactersMost !== null) {
    if (isLongerThan(text, charactersMost))
      throw tooMuchText(text, contextLength, charactersMost, param)
    return
  }
  const tokens = floor.atLeast(text, contextLength)
  if (tokens > contextLength) throw tooLong(tokens, contextLength, param, 'at least ')
}

/** A count may exceed the context, but not by any factor: a text that is far too long is refused. */
const CHARACTERS_PER_TOKEN = 8
const COUNTED_CHARACTERS_MIN = 1024 * 1024
/** The limit when the context length is not known. */
const UNKNOWN_CONTEXT_CHARACTERS = 4 * 1024 * 1024

export function countedCharactersMax(contextLength: number | undefined): number {
  if (contextLength === undefined || contextLength === 0) return UNKNOWN_CONTEXT_CHARACTERS
  return Math.max(COUNTED_CHARACTERS_MIN, CHARACTERS_PER_TOKEN * contextLength)
}

/** Checked before a text is tokenised only to be counted, or for a model whose context length is not known. */
export function refuseEndlessText(
  text: string,
  contextLength: number | undefined,
  param: string,
): void {
  const limit = countedCharactersMax(contextLength)
  if (text.length <= limit) return
  throw new BatonError(
    'request.payload_too_large',
    `\`${param}\`: ${text.length} characters, at most ${limit} are tokenised for this model`,
    { data: { param, limit, characters: text.length } },
  )
}

function tooMuchText(
  text: string,
  contextLength: number,
  charactersMost: number,
  param: string,
): BatonError {
  return new BatonError(
    'request.context_length_exceeded',
    `This model's maximum context length is ${contextLength} tokens, which hold at most ${charactersMost} characters. However, your ${param} has ${text.length} characters. Please reduce the length of the ${param}.`,
    { data: { param, contextLength, characters: text.length } },
  )
}

function tooLong(
  promptTokens: number,
  contextLength: number,
  param: string,
  bound: '' | 'at least ' = '',
): BatonError {
  return new BatonError(
    'request.context_length_exceeded',
    `This model's maximum context length is ${contextLength} tokens. However, your ${param} resulted in ${bound}${promptTokens} tokens. Please reduce the length of the ${param}.`,
    { data: { param, contextLength, promptTokens } },
  )
}
