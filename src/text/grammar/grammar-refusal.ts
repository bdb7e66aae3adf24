/** The error for a constraint that no grammar can express, or that makes no sense. */
import { BatonError } from '../../base/index.ts'

/** It means something, but a grammar cannot say it. `what` begins with the name of the construct in quotes. */
export function unsupported(what: string): BatonError {
  return new BatonError('request.unsupported_parameter', `a grammar cannot hold ${what}`)
}

export function invalid(what: string): BatonError {
  return new BatonError('request.invalid_argument', what)
}

/** The same of the JSON schema as a whole. */
export function invalidSchema(what: string): BatonError {
  return invalid(`the JSON schema cannot be used: ${what}`)
}
