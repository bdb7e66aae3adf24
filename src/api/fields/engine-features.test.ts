import { expect, it } from 'vitest'
import { parseCompletionRequest } from '../requests/completion-request.ts'
import { refuseMissingFeatures } from './engine-features.ts'

it.each([
  [{ best_of: 2 }, 'best_of'],
  [{ best_of: 2, logprobs: 1 }, 'logprobs'],
  [{ logprobs: 1 }, 'logprobs'],
  [{ logit_bias: { '5': 1 } }, 'logit_bias'],
])('%j with an engine that has no such feature - the refusal names %s', (fields, param) => {
  const call = parseCompletionRequest({ prompt: 'x', temperature: 1, ...fields })
  expect(() => refuseMissingFeatures(call, [])).toThrow(
    expect.objectContaining({ data: { param } }),
  )
})
