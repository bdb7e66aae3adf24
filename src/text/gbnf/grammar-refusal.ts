/** Errors for constraints that a grammar cannot express, or that are invalid. */
import { BatonError } from '../../base/index.ts'

/**
 * Called for a keyword that no grammar can express; `what` begins with the quoted name of the construct. Throws in
 * strict mode. Otherwise the keyword is reported, and the caller continues without it.
 */
export type DropKeyword = (keyword: string, what: string) => void

/** The constraint is valid, but a grammar cannot express it. `what` begins with the quoted name of the construct. */
class Unsupported extends BatonError {
  readonly what: string

  constructor(what: string) {
    super('request.unsupported_parameter', `a grammar cannot express ${what}`)
    this.what = what
  }
}

export function unsupported(what: string): BatonError {
  return new Unsupported(what)
}

/** What `write` returns, or what no grammar can express of it. */
export function attempted<T>(write: () => T): { readonly value: T } | { readonly what: string } {
  try {
    return { value: write() }
  } catch (thrown) {
    if (!(thrown instanceof Unsupported)) throw thrown
    return { what: thrown.what }
  }
}

export const refuseKeyword: DropKeyword = (_keyword, what) => {
  throw unsupported(what)
}

export function invalid(what: string): BatonError {
  return new BatonError('request.invalid_argument', what)
}

/** The JSON schema as a whole is invalid. */
export function invalidSchema(what: string): BatonError {
  return invalid(`the JSON schema is invalid: ${what}`)
}

/** No value is valid here. Where no value is needed (an optional property, one of several options), there is none. */
export class NothingValid extends BatonError {
  constructor(what: string) {
    super('request.invalid_argument', what)
  }
}

export function nothingValid(what = 'no value is valid for it'): NothingValid {
  return new NothingValid(`the JSON schema is invalid: ${what}`)
}

/** A limit of grammars is exceeded. A request that is not strict gets a smaller grammar. */
export class GrammarTooLarge extends BatonError {
  constructor(what: string) {
    super('request.invalid_argument', what)
  }
}

export function schemaTooLarge(what: string): GrammarTooLarge {
  return new GrammarTooLarge(`the JSON schema is invalid: ${what}`)
}

export function patternTooLarge(): BatonError {
  return unsupported("'pattern' of this size")
}
