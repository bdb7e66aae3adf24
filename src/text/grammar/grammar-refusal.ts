/** Errors for constraints that a grammar cannot express, or that are invalid. */
import { BatonError } from '../../base/index.ts'

/** The constraint is valid, but a grammar cannot express it. `what` begins with the quoted name of the construct. */
export function unsupported(what: string): BatonError {
  return new BatonError('request.unsupported_parameter', `a grammar cannot express ${what}`)
}

export function invalid(what: string): BatonError {
  return new BatonError('request.invalid_argument', what)
}

/** The JSON schema as a whole is invalid. */
export function invalidSchema(what: string): BatonError {
  return invalid(`the JSON schema is invalid: ${what}`)
}
