/**
 * Does it fit? A prompt that leaves no room for a token is refused here, with both numbers, before any worker sees it.
 */
import { BatonError } from '../base/index.ts'

/** The number of tokens that may be generated; undefined when the context is unknown and nothing was asked. */
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
  const room = contextLength - promptTokens
  return asked === undefined ? room : Math.min(asked, room)
}

/** An embedding needs no room for a token. */
export function refuseLongInput(promptTokens: number, contextLength: number | undefined): void {
  if (contextLength === undefined || contextLength === 0 || promptTokens <= contextLength) return
  throw tooLong(promptTokens, contextLength, 'input')
}

function tooLong(promptTokens: number, contextLength: number, param: string): BatonError {
  return new BatonError(
    'request.context_length_exceeded',
    `This model's maximum context length is ${contextLength} tokens. However, your ${param} resulted in ${promptTokens} tokens. Please reduce the length of the ${param}.`,
    { data: { param, contextLength, promptTokens } },
  )
}
