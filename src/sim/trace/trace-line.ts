/**
 * Shared by readers of traces: lines of JSON, the error that names a line, and counts.
 */
import { BatonError, isRecord } from '../../base/index.ts'

export type TraceEntry = Readonly<Record<string, unknown>>

const LISTS_OF_IDS = /"(?:hash_ids|input_sequence_hashes)"\s*:\s*\[[^\]]*\]/g

/**
 * Parses a line of JSON. Ids with more digits than a number can represent become texts, so that ids which differ
 * only in the last digit stay different.
 */
export function entryOf(line: string, number: number): TraceEntry {
  let entry: unknown
  try {
    entry = JSON.parse(/\d{16}/.test(line) ? withLargeIdsQuoted(line) : line)
  } catch (cause) {
    throw wrongLine(number, 'is not JSON: expected one object per line', cause)
  }
  if (isRecord(entry)) return entry
  throw wrongLine(number, 'is not a JSON object: expected one object per line')
}

function withLargeIdsQuoted(line: string): string {
  return line.replace(LISTS_OF_IDS, (list) =>
    list.replace(/(?<=[[,]\s*)-?\d{16,}(?=\s*[\],])/g, '"$&"'),
  )
}

export function wrongLine(line: number, what: string, cause?: unknown): BatonError {
  return new BatonError('request.invalid_argument', `line ${line} of the trace ${what}`, {
    data: { line },
    cause,
  })
}

/** The latest date that JavaScript knows, in milliseconds; JSON can write numbers up to infinity. */
export const TIME_MAX_MS = 8.64e15

export function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= TIME_MAX_MS
}

/** Above any context length; a mistyped length would take all memory for one prompt. */
export const TOKENS_MAX = 2 ** 24

/** A whole number of tokens; a request without input or output tokens cannot be sent. */
export function isTokenCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= TOKENS_MAX
}

/** The message for a line with an invalid count `name`, which must be from 1 to the limit. */
export function noCount(name: string): string {
  return `has no ${name} from 1 to ${TOKENS_MAX}`
}
