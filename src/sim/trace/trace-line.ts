/**
 * What readers of traces share: the error that names a line, and counts.
 */
import { BatonError } from '../../base/index.ts'

export function wrongLine(line: number, what: string, cause?: unknown): BatonError {
  return new BatonError('request.invalid_argument', `line ${line} of the trace ${what}`, {
    data: { line },
    cause,
  })
}

/** A whole number of tokens; a request without a token on either side cannot be sent. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1
}
