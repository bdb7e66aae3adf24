/** An engine may refuse a request that it cannot serve, although others can: a limit of its own is no fault. */
import { isBatonError } from '../../base/index.ts'
import type { ErrorCode } from '../../base/index.ts'
import type { StreamOutcome } from './stream-reader.ts'

const REFUSALS: ReadonlySet<unknown> = new Set<ErrorCode>([
  'backend.invalid_argument',
  'request.invalid_argument',
  'request.unsupported_parameter',
  'request.context_length_exceeded',
])

export function isRefusal(error: unknown): boolean {
  return isBatonError(error) && REFUSALS.has(error.code)
}

/** The engine refused the request itself, before its first item. */
export function isRefused({ end, chunks, error }: StreamOutcome): boolean {
  return end === 'error' && chunks.length === 0 && isRefusal(error)
}
