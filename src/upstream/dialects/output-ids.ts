/**
 * The token ids of an answer: a value that is no id ends the request, because the answer without it would look whole.
 */
import { BatonError, isU32 } from '../../base/index.ts'
import { valueIn } from './plain-values.ts'

/** Nothing counts as no ids. Throws for anything else that is not a list of ids. */
export function outputIdsIn(json: unknown, ...path: readonly string[]): readonly number[] {
  const value = valueIn(json, path) ?? []
  if (!Array.isArray(value) || !value.every(isU32))
    throw oddIds('the engine sends token ids that are no unsigned 32-bit integers')
  return value
}

export function unknownId(id: number, vocabSize: number): BatonError {
  return oddIds(`the engine sends token id ${id}, but its vocabulary has ${vocabSize} tokens`)
}

function oddIds(text: string): BatonError {
  return new BatonError('backend.contract_violation', text, { data: { stage: 'upstream' } })
}
