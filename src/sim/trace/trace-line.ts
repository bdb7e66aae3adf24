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

/** Above any context length; a length with a few zeros too many would take all memory for one prompt. */
export const TOKENS_MAX = 2 ** 24

/** A whole number of tokens; a request without a token on either side cannot be sent. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= TOKENS_MAX
}

/** What a line lacks whose count is none: `name` from 1 to the limit. */
export function noCount(name: string): string {
  return `has no ${name} from 1 to ${TOKENS_MAX}`
}
