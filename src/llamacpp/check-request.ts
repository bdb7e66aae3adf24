/** Refuses requests, before anything is queued, that llama.cpp could not compute or that would crash the process. */
import { BatonError } from '../base/index.ts'
import type { GenerateRequest } from '../request/index.ts'

interface RequestLimits {
  readonly contextLength: number
  readonly vocabSize: number
}

export function checkRequest(request: GenerateRequest, limits: RequestLimits): void {
  const { tokenIds, resumedTokens = 0 } = request
  if (tokenIds.length >= limits.contextLength) {
    throw new BatonError(
      'request.context_length_exceeded',
      `the prompt has ${tokenIds.length} tokens; the context of ${limits.contextLength} has room for ` +
        `${limits.contextLength - 1} and one token of output`,
    )
  }
  checkTokens(tokenIds, limits.vocabSize)
  if (resumedTokens < 0 || resumedTokens >= tokenIds.length)
    throw invalid(`resumedTokens ${resumedTokens} leaves no prompt`)
  for (const token of Object.keys(request.sampling.logitBias ?? {})) {
    if (!(Number(token) < limits.vocabSize))
      throw invalid(`logit_bias names token ${token}, which is not in the vocabulary`)
  }
}

/** An unknown token would crash the process. */
export function checkTokens(tokenIds: Uint32Array, vocabSize: number): void {
  if (tokenIds.length === 0) throw invalid('the prompt has no tokens')
  for (const token of tokenIds) {
    if (token >= vocabSize)
      throw invalid(`token ${token} is not in the vocabulary of ${vocabSize} tokens`)
  }
}

function invalid(message: string): BatonError {
  return new BatonError('backend.invalid_argument', message)
}
